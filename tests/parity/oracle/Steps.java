import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.BranchedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Printed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.internals.NamedInternal;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The calls of one case on a {@link StreamsBuilder}: sources, sinks and what is called on one stream or table.
 *
 * <p>{@link Aggregates} and {@link Joins} have the rest.
 */
final class Steps {
    final StreamsBuilder builder = new StreamsBuilder();
    /** By sink topic, in the order of the calls. */
    final Map<String, Types> sinks = new LinkedHashMap<>();
    /** The named key-value stores. */
    final List<String> stores = new ArrayList<>();
    /** By input topic. */
    final Map<String, Types> inputs = new HashMap<>();

    private final Map<String, Made> made = new HashMap<>();

    /** What a step returned, with the types of its keys and values. */
    record Made(Object what, Types types) {
        @SuppressWarnings("unchecked") // cases know their types by name only
        KStream<Object, Object> stream() {
            return (KStream<Object, Object>) what;
        }

        @SuppressWarnings("unchecked") // as above
        <T> KTable<T, Object> table() {
            return (KTable<T, Object>) what;
        }

        @SuppressWarnings("unchecked") // as above
        GlobalKTable<Object, Object> globalTable() {
            return (GlobalKTable<Object, Object>) what;
        }

        boolean isTable() {
            return what instanceof KTable;
        }
    }

    Made of(String id) {
        Made found = made.get(id);
        if (found == null) {
            throw new IllegalArgumentException("no step made " + id);
        }
        return found;
    }

    void run(JsonNode step) {
        String op = text(step, "op");
        if (step.has("ttl_ms")) {
            throw new IllegalArgumentException("Kafka Streams has no rows that expire: " + step);
        }
        switch (op) {
            case "deduplicate" -> throw new IllegalArgumentException("Kafka Streams has no deduplicate: " + step);
            case "stream", "table", "global_table", "versioned_table" -> keep(step, source(op, step));
            case "to" -> to(step, of(text(step, "in")));
            case "print" -> print(step, of(text(step, "in")).stream());
            case "for_each" -> of(text(step, "in")).stream().foreach((key, value) -> {}, named(step));
            case "branch" -> branch(step, of(text(step, "in")));
            case "cogroup" -> keep(step, Aggregates.cogroup(step, this));
            case "group_by", "group_by_key", "time_window", "sliding_window", "session_window", "unlimited_window" ->
                    keep(step, Aggregates.grouped(op, step, of(text(step, "in"))));
            case "count", "reduce", "aggregate" ->
                    keep(step, Aggregates.aggregated(op, step, of(text(step, "in")), this));
            case "suppress", "windowed_to_stream" -> keep(step, Aggregates.windowed(op, step, of(text(step, "in"))));
            case "stream_table", "stream_stream", "stream_global", "table_table", "foreign_key" ->
                    keep(step, Joins.joined(op, step, of(text(step, "in")), of(text(step, "with")), this));
            default -> {
                Made input = of(text(step, "in"));
                keep(step, input.isTable() ? onTable(op, step, input) : onStream(op, step, input));
            }
        }
    }

    private void keep(JsonNode step, Made result) {
        made.put(text(step, "id"), result);
    }

    private Made source(String op, JsonNode step) {
        List<String> topics = new ArrayList<>();
        (step.has("topics") ? step.get("topics") : List.of(step.required("topic")))
                .forEach(topic -> topics.add(topic.asText()));
        String topic = topics.get(0);
        Types types = new Types(step.path("key").asText("string"), step.path("value").asText("string"));
        topics.forEach(each -> inputs.put(each, types));
        Consumed<Object, Object> consumed = Consumed.with(types.keySerde(), types.valueSerde());
        if (step.has("named")) {
            consumed = consumed.withName(text(step, "named"));
        }
        Object source = switch (op) {
            case "stream" -> builder.stream(topics, consumed);
            case "table" -> step.has("store")
                    ? builder.table(topic, consumed, materialized(step, types))
                    : builder.table(topic, consumed);
            case "global_table" -> builder.globalTable(topic, consumed);
            default -> builder.table(topic, consumed, versioned(step, types));
        };
        return new Made(source, types);
    }

    private Made onStream(String op, JsonNode step, Made input) {
        KStream<Object, Object> stream = input.stream();
        Types types = input.types();
        Types declared = types.withValue(step.path("value").asText(types.value()));
        Named named = named(step);
        return switch (op) {
            case "filter" -> new Made(stream.filter(Functions.predicate(fn(step)), named), types);
            case "filter_not" -> new Made(stream.filterNot(Functions.predicate(fn(step)), named), types);
            case "map_values" -> new Made(stream.mapValues(Functions.mapper(fn(step)), named), declared);
            case "flat_map_values" -> new Made(stream.flatMapValues(Functions.flat(fn(step)), named), types);
            case "map" -> new Made(
                    stream.map(Functions.pair(text(step, "key_fn"), fn(step)), named), declared.withKey("string"));
            case "flat_map" -> new Made(
                    stream.flatMap(Functions.pairs(text(step, "key_fn"), fn(step)), named), types.withKey("string"));
            case "select_key" ->
                    new Made(stream.selectKey(Functions.selector(fn(step)), named), types.withKey("string"));
            case "peek" -> new Made(stream.peek((key, value) -> {}, named), types);
            case "merge" -> new Made(stream.merge(of(text(step, "with")).stream(), named), types);
            case "repartition" -> {
                Repartitioned<Object, Object> how = Repartitioned.with(types.keySerde(), types.valueSerde());
                yield new Made(stream.repartition(step.has("name") ? how.withName(text(step, "name")) : how), types);
            }
            case "to_table" -> new Made(stream.toTable(named, materialized(step, types)), types);
            case "process" -> new Made(process(step, stream), declared);
            case "process_values" -> new Made(processValues(step, stream), declared);
            default -> throw new IllegalArgumentException("no operator " + op + " on a stream");
        };
    }

    private Made onTable(String op, JsonNode step, Made input) {
        KTable<Object, Object> table = input.table();
        Types types = input.types();
        Types declared = types.withValue(step.path("value").asText(types.value()));
        Named named = named(step);
        boolean kept = step.has("store");
        return switch (op) {
            case "filter" -> new Made(kept
                    ? table.filter(Functions.predicate(fn(step)), named, materialized(step, types))
                    : table.filter(Functions.predicate(fn(step)), named), types);
            case "filter_not" -> new Made(kept
                    ? table.filterNot(Functions.predicate(fn(step)), named, materialized(step, types))
                    : table.filterNot(Functions.predicate(fn(step)), named), types);
            case "map_values" -> new Made(kept
                    ? table.mapValues(Functions.mapper(fn(step)), named, materialized(step, declared))
                    : table.mapValues(Functions.mapper(fn(step)), named), declared);
            case "transform_values" -> new Made(kept
                    ? table.transformValues(Functions.transformer(fn(step)), materialized(step, declared), named)
                    : table.transformValues(Functions.transformer(fn(step)), named), declared);
            case "to_stream" -> step.has("key_fn")
                    ? new Made(table.toStream(Functions.selector(text(step, "key_fn")), named), types.withKey("string"))
                    : new Made(table.toStream(named), types);
            default -> throw new IllegalArgumentException("no operator " + op + " on a table");
        };
    }

    /** To where nobody reads it: only its node is of interest. */
    private static void print(JsonNode step, KStream<Object, Object> stream) {
        Printed<Object, Object> printed = Printed.toFile("/dev/null");
        stream.print(step.has("named") ? printed.withName(text(step, "named")) : printed);
    }

    private KStream<Object, Object> processValues(JsonNode step, KStream<Object, Object> stream) {
        String[] connected = connected(step);
        var supplier = MoreProcessors.fixedKeySupplier(fn(step), step.path("store").asText());
        return step.has("named")
                ? stream.processValues(supplier, named(step), connected)
                : stream.processValues(supplier, connected);
    }

    private KStream<Object, Object> process(JsonNode step, KStream<Object, Object> stream) {
        String[] connected = connected(step);
        var supplier = Processors.supplier(fn(step), step.path("store").asText());
        return step.has("named") // here the empty name is none
                ? stream.process(supplier, named(step), connected)
                : stream.process(supplier, connected);
    }

    /** The store that the step's processor uses; it is new. */
    private String[] connected(JsonNode step) {
        String[] connected = {};
        if (step.has("store")) {
            String store = text(step, "store");
            Types types = Types.TEXT;
            builder.addStateStore(Stores.keyValueStoreBuilder(
                    Stores.inMemoryKeyValueStore(store), types.keySerde(), types.valueSerde()));
            connected = new String[] {store};
        }
        return connected;
    }

    private void branch(JsonNode step, Made input) {
        String prefix = text(step, "name") + "-";
        BranchedKStream<Object, Object> split = input.stream().split(Named.as(prefix));
        JsonNode functions = step.required("fns");
        for (int number = 0; number < functions.size(); number++) {
            String end = String.valueOf(number);
            split = split.branch(Functions.predicate(functions.get(number).asText()), Branched.as(end));
        }
        Map<String, KStream<Object, Object>> branches = split.defaultBranch(Branched.as("rest"));
        JsonNode ids = step.required("ids");
        for (int number = 0; number < ids.size(); number++) {
            String end = number < functions.size() ? String.valueOf(number) : "rest";
            made.put(ids.get(number).asText(), new Made(branches.get(prefix + end), input.types()));
        }
    }

    private void to(JsonNode step, Made input) {
        Types types = input.types();
        Produced<Object, Object> produced = Produced.with(types.keySerde(), types.valueSerde());
        input.stream()
                .to(text(step, "topic"), step.has("named") ? produced.withName(text(step, "named")) : produced);
        sinks.putIfAbsent(text(step, "topic"), types);
    }

    /** How the step's result is kept; a named store is one of the case's stores, unless it is versioned. */
    Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> materialized(JsonNode step, Types types) {
        if (step.has("history_ms")) {
            return versioned(step, types);
        }
        if (step.has("store")) {
            stores.add(text(step, "store"));
        }
        return Stored.as(step, types);
    }

    private static Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> versioned(JsonNode step, Types types) {
        return Materialized.<Object, Object>as(
                        Stores.persistentVersionedKeyValueStore(text(step, "store"), millis(step, "history_ms")))
                .withKeySerde(types.keySerde())
                .withValueSerde(types.valueSerde());
    }

    static String text(JsonNode step, String field) {
        return step.required(field).asText();
    }

    /** The name that the step gives its node, or what the calls without a name pass on themselves. */
    static Named named(JsonNode step) {
        return step.has("named") ? Named.as(text(step, "named")) : NamedInternal.empty();
    }

    static String fn(JsonNode step) {
        return text(step, "fn");
    }

    static Duration millis(JsonNode step, String field) {
        return Duration.ofMillis(step.required(field).asLong());
    }

    static Grouped<Object, Object> groupedBy(JsonNode step, Types types) {
        Grouped<Object, Object> how = Grouped.with(types.keySerde(), types.valueSerde());
        return step.has("name") ? how.withName(text(step, "name")) : how;
    }
}

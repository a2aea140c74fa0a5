import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** The steps that add nodes to a topology by hand, after those of the DSL. */
final class ByHand {
    private static final Set<String> OPS = Set.of(
            "add_source", "add_processor", "add_sink", "add_state_store", "connect", "add_global_store",
            "add_read_only_state_store");

    private ByHand() {}

    static boolean takes(JsonNode step) {
        return OPS.contains(Steps.text(step, "op"));
    }

    static void run(JsonNode step, Topology topology, Steps steps) {
        String op = Steps.text(step, "op");
        Types types = new Types(step.path("key").asText("string"), step.path("value").asText("string"));
        switch (op) {
            case "add_source" -> {
                String[] topics = names(step, "topics");
                for (String topic : topics) {
                    steps.inputs.put(topic, types);
                }
                topology.addSource(
                        Steps.text(step, "name"), types.keySerde().deserializer(), types.valueSerde().deserializer(),
                        topics);
            }
            case "add_processor" ->
                    topology.addProcessor(Steps.text(step, "name"), supplier(step, steps), names(step, "parents"));
            case "add_sink" -> {
                String topic = Steps.text(step, "topic");
                topology.addSink(
                        Steps.text(step, "name"), topic, types.keySerde().serializer(), types.valueSerde().serializer(),
                        names(step, "parents"));
                steps.sinks.putIfAbsent(topic, types);
            }
            case "add_state_store" -> {
                steps.stores.add(Steps.text(step, "store"));
                topology.addStateStore(store(Steps.text(step, "store")), names(step, "processors"));
            }
            case "connect" ->
                    topology.connectProcessorAndStateStores(Steps.text(step, "processor"), names(step, "stores"));
            default -> kept(op, step, topology, steps, types);
        }
    }

    /** A store that is kept from a topic, whole or in part. */
    private static void kept(String op, JsonNode step, Topology topology, Steps steps, Types types) {
        String topic = Steps.text(step, "topic");
        steps.inputs.put(topic, types);
        String store = Steps.text(step, "store");
        steps.stores.add(store);
        ProcessorSupplier<Object, Object, Void, Void> keeper = () -> Processors.keeper(store);
        String source = Steps.text(step, "source");
        String processor = Steps.text(step, "processor");
        if (op.equals("add_global_store")) {
            topology.addGlobalStore(
                    store(store).withLoggingDisabled(), source, types.keySerde().deserializer(),
                    types.valueSerde().deserializer(), topic, processor, keeper);
        } else {
            topology.addReadOnlyStateStore(
                    store(store), source, types.keySerde().deserializer(), types.valueSerde().deserializer(), topic,
                    processor, keeper);
        }
    }

    /** Its field "brings" names the stores that the supplier brings along. */
    private static ProcessorSupplier<Object, Object, Object, Object> supplier(JsonNode step, Steps steps) {
        ProcessorSupplier<Object, Object, Object, Object> plain =
                Processors.supplier(Steps.fn(step), step.path("store").asText());
        String[] brought = names(step, "brings");
        steps.stores.addAll(List.of(brought));
        List<StoreBuilder<?>> builders = new ArrayList<>();
        for (String name : brought) {
            builders.add(store(name));
        }
        return new ProcessorSupplier<>() {
            @Override
            public Processor<Object, Object, Object, Object> get() {
                return plain.get();
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return builders.isEmpty() ? null : Set.copyOf(builders);
            }
        };
    }

    private static StoreBuilder<KeyValueStore<Object, Object>> store(String name) {
        return Stores.keyValueStoreBuilder(
                Stores.inMemoryKeyValueStore(name), Types.TEXT.keySerde(), Types.TEXT.valueSerde());
    }

    private static String[] names(JsonNode step, String field) {
        List<String> names = new ArrayList<>();
        step.path(field).forEach(name -> names.add(name.asText()));
        return names.toArray(String[]::new);
    }
}

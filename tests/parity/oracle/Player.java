import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.test.TestRecord;

/** Builds one case's topology, pipes its input in and reads everything that came of it. */
final class Player {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String APPLICATION_ID = "parity";
    private static final String DROPPED = "dropped-records-total";

    private Player() {}

    /** What the steps of a case build: first those of the DSL, then those by hand. */
    static Topology topology(JsonNode asked, Steps steps, Properties config) {
        asked.forEach(step -> {
            if (!ByHand.takes(step)) {
                steps.run(step);
            }
        });
        Topology topology = steps.builder.build(config);
        asked.forEach(step -> {
            if (ByHand.takes(step)) {
                ByHand.run(step, topology, steps);
            }
        });
        return topology;
    }

    static ObjectNode play(ObjectNode asked, Path stateFolder) {
        Properties config = config(asked.required("config"), stateFolder);
        Steps steps = new Steps();
        Topology topology = topology(asked.required("topology"), steps, config);
        ObjectNode answer = JSON.createObjectNode();
        for (String field : List.of("name", "config", "topology", "input")) {
            answer.set(field, asked.required(field));
        }
        answer.put("description", topology.describe().toString());
        try (Driver driver = new Driver(topology, config)) {
            asked.required("input").forEach(event -> happen(event, steps, driver));
            answer.set("output", output(steps, driver));
            answer.set("internal", internal(driver));
            answer.set("stores", stores(steps, driver));
            answer.putObject("metrics").put(DROPPED, dropped(driver));
            if (asked.path("all_stores").asBoolean(false)) {
                ObjectNode all = answer.putObject("all_stores");
                driver.getAllStateStores().forEach((name, store) -> {
                    if (Contents.isReadable(store)) {
                        Contents.write(store, all.putArray(name));
                    }
                });
            }
        }
        return answer;
    }

    static Properties config(JsonNode entries, Path stateFolder) {
        if (entries.has("window.idle.advance.ms")) {
            throw new IllegalArgumentException("Kafka Streams has no window.idle.advance.ms");
        }
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION_ID);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "not.used:9092");
        config.put(StreamsConfig.STATE_DIR_CONFIG, stateFolder.toString());
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        entries.properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        return config;
    }

    private static void happen(JsonNode event, Steps steps, TopologyTestDriver driver) {
        if (event.has("advance_wall_ms")) {
            driver.advanceWallClockTime(Duration.ofMillis(event.get("advance_wall_ms").asLong()));
            return;
        }
        String topic = event.required("topic").asText();
        Types types = steps.inputs.get(topic);
        if (types == null) {
            throw new IllegalArgumentException("no step reads topic " + topic);
        }
        Headers headers = new RecordHeaders();
        event.path("headers").properties().forEach(
                each -> headers.add(each.getKey(), each.getValue().asText().getBytes(StandardCharsets.UTF_8)));
        TestInputTopic<Object, Object> input = driver.createInputTopic(
                topic, types.keySerde().serializer(), types.valueSerde().serializer());
        Object key = plain(event.required("key"));
        input.pipeInput(new TestRecord<>(key, plain(event.required("value")), headers, event.required("ts").asLong()));
    }

    private static Object plain(JsonNode node) {
        if (node.isNull()) {
            return null;
        }
        return node.isIntegralNumber() ? (Object) node.longValue() : node.textValue();
    }

    private static ObjectNode output(Steps steps, TopologyTestDriver driver) {
        ObjectNode output = JSON.createObjectNode();
        for (Map.Entry<String, Types> sink : steps.sinks.entrySet()) {
            Types types = sink.getValue();
            ArrayNode records = output.putArray(sink.getKey());
            driver.createOutputTopic(
                            sink.getKey(),
                            types.keySerde().deserializer(),
                            types.valueSerde().deserializer())
                    .readRecordsToList()
                    .forEach(record -> records.add(shown(record)));
        }
        return output;
    }

    private static ObjectNode shown(TestRecord<Object, Object> record) {
        ObjectNode shown = JSON.createObjectNode();
        shown.set("key", JSON.valueToTree(record.key()));
        shown.set("value", JSON.valueToTree(record.value()));
        shown.put("ts", record.timestamp());
        Iterator<Header> headers = record.headers().iterator();
        if (headers.hasNext()) {
            ObjectNode byName = shown.putObject("headers");
            headers.forEachRemaining(
                    header -> byName.put(header.key(), new String(header.value(), StandardCharsets.UTF_8)));
        }
        return shown;
    }

    private static ObjectNode internal(TopologyTestDriver driver) {
        ObjectNode internal = JSON.createObjectNode();
        for (String topic : new TreeSet<>(driver.producedTopicNames())) {
            if (topic.startsWith(APPLICATION_ID + "-")) {
                ArrayNode records = internal.putArray(topic);
                driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer())
                        .readRecordsToList()
                        .forEach(each ->
                                records.addArray().add(hex(each.key())).add(hex(each.value())).add(each.timestamp()));
            }
        }
        return internal;
    }

    private static String hex(byte[] data) {
        return data == null ? null : HexFormat.of().formatHex(data);
    }

    private static ObjectNode stores(Steps steps, TopologyTestDriver driver) {
        ObjectNode stores = JSON.createObjectNode();
        for (String name : steps.stores) {
            ArrayNode entries = stores.putArray(name);
            try (KeyValueIterator<Object, Object> all = driver.getKeyValueStore(name).all()) {
                while (all.hasNext()) {
                    KeyValue<Object, Object> entry = all.next();
                    entries.addArray().addPOJO(entry.key).addPOJO(entry.value);
                }
            }
        }
        return stores;
    }

    private static double dropped(TopologyTestDriver driver) {
        return driver.metrics().entrySet().stream()
                .filter(metric -> metric.getKey().name().equals(DROPPED))
                .mapToDouble(metric -> ((Number) metric.getValue().metricValue()).doubleValue())
                .sum();
    }
}

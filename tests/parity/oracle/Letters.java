import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.Consumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.ErrorHandlerContext;
import org.apache.kafka.streams.errors.LogAndContinueExceptionHandler;
import org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler;
import org.apache.kafka.streams.errors.ProductionExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.test.TestRecord;

/** Plays programs with bad records on Kafka Streams: for each a line with the dead letters, and the dropped records. */
public final class Letters {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String DLQ = "letters";

    /** What a program is given: time, topic, key, value. Each record has a header. */
    private record Given(long time, String topic, String key, String value) {}

    private static final List<Given> THREE =
            List.of(new Given(10, "in", "a", "fine"), new Given(11, "in", "b", "bad"), new Given(12, "in", "c", "last"));

    private final Map<String, Consumer<StreamsBuilder>> programs = new LinkedHashMap<>();
    private final Map<String, List<Given>> inputs = new LinkedHashMap<>();

    private static String good(String value) {
        if (value != null && value.contains("bad")) {
            throw new IllegalArgumentException("no good: " + value);
        }
        return value;
    }

    /** A serde that refuses to write what is bad. */
    private static Serde<String> picky() {
        return Serdes.serdeFrom(
                (topic, value) -> good(value).getBytes(StandardCharsets.UTF_8),
                (topic, data) -> new String(data, StandardCharsets.UTF_8));
    }

    /** Drops results, with letters of its own. */
    public static final class Resume implements ProductionExceptionHandler {
        @Override
        public Response handleError(
                ErrorHandlerContext context, ProducerRecord<byte[], byte[]> record, Exception exception) {
            return Response.fail();
        }

        @Override
        @SuppressWarnings("rawtypes")
        public Response handleSerializationError(
                ErrorHandlerContext context,
                ProducerRecord record,
                Exception exception,
                SerializationExceptionOrigin origin) {
            return Response.resume(List.of(new ProducerRecord<>(
                    DLQ, null, context.timestamp(), context.sourceRawKey(), context.sourceRawValue())));
        }

        @Override
        public void configure(Map<String, ?> configs) {}
    }

    /** Runs functions. */
    private static final class Calling extends ContextualProcessor<String, String, String, String> {
        private final Consumer<ProcessorContext<String, String>> begin;
        private final Consumer<Record<String, String>> each;

        Calling(Consumer<ProcessorContext<String, String>> begin, Consumer<Record<String, String>> each) {
            this.begin = begin;
            this.each = each;
        }

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            begin.accept(context);
        }

        @Override
        public void process(Record<String, String> record) {
            each.accept(record);
        }
    }

    private void add(String name, Consumer<KStream<String, String>> program) {
        programs.put(name, builder -> program.accept(builder.stream("in")));
    }

    private static <V> Materialized<String, V, KeyValueStore<Bytes, byte[]>> store(boolean caching) {
        Materialized<String, V, KeyValueStore<Bytes, byte[]>> store = Materialized.as("kept");
        return caching ? store.withCachingEnabled() : store.withCachingDisabled();
    }

    private void addAll() {
        programs.put("deserialization", builder -> builder.stream("in", Consumed.with(Serdes.String(), refusing()))
                .to("out", Produced.with(Serdes.String(), Serdes.String())));
        add("map after select_key", in -> in.selectKey((k, v) -> k + k).mapValues(Letters::good).to("out"));
        add("sent before", in -> {
            in.to("copy");
            in.mapValues(Letters::good).to("out");
        });
        add("store without a cache", in -> in.groupByKey()
                .reduce((old, value) -> value, store(false)).toStream().mapValues(Letters::good).to("out"));
        add("store with a cache", in -> in.groupByKey()
                .reduce((old, value) -> value, store(true)).toStream().mapValues(Letters::good).to("out"));
        add("other time and headers", in -> in.process(() -> new Processor<String, String, String, String>() {
            private ProcessorContext<String, String> context;

            @Override
            public void init(ProcessorContext<String, String> given) {
                context = given;
            }

            @Override
            public void process(Record<String, String> record) {
                context.forward(record.withTimestamp(99).withHeaders(new RecordHeaders().add("mine", new byte[] {49})));
            }
        }).mapValues(Letters::good).to("out"));
        add("processor", in -> in.process(() -> new Calling(c -> {}, r -> good(r.value()))).to("out"));
        add("punctuator", in -> in.process(() -> new Calling(
                c -> c.schedule(Duration.ofMillis(5), PunctuationType.STREAM_TIME, now -> good("bad")), r -> {}))
                .to("out"));
        add("forwarded by a punctuator", in -> in.process(() -> new Calling(
                c -> c.schedule(Duration.ofMillis(5), PunctuationType.STREAM_TIME,
                        now -> c.forward(new Record<>("pk", "bad", now))), r -> {}))
                .mapValues(Letters::good).to("out"));
        add("suppress", in -> in.groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(5), Duration.ZERO))
                .reduce((old, value) -> value, Materialized.with(Serdes.String(), Serdes.String()))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
                .toStream((window, value) -> window.key()).mapValues(Letters::good).to("out"));
        inputs.put("suppress", List.of(new Given(11, "in", "b", "bad"), new Given(50, "in", "z", "end")));
        programs.put("join with a table", builder -> {
            KTable<String, String> table = builder.table("table");
            builder.<String, String>stream("in").leftJoin(table, (left, right) -> good(left)).to("out");
        });
        programs.put("left join of streams", builder -> {
            KStream<String, String> left = builder.stream("in");
            left.leftJoin(builder.<String, String>stream("right"), (one, other) -> good(one),
                    JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(5), Duration.ZERO)).to("out");
        });
        inputs.put("left join of streams", List.of(new Given(11, "in", "b", "bad"), new Given(50, "in", "z", "end")));
        programs.put("filter of a table", builder ->
                builder.<String, String>table("in").filter((k, v) -> good(v) != null).toStream().to("out"));
        programs.put("mapped table", builder -> builder.<String, String>table("in")
                .mapValues(Letters::good, store(false)).toStream().to("out"));
        add("repartition", in -> in.selectKey((k, v) -> "x" + k)
                .repartition(Repartitioned.as("again")).mapValues(Letters::good).to("out"));
        add("no message", in -> in.mapValues(value -> {
            if (value.equals("bad")) {
                throw new IllegalStateException();
            }
            return value;
        }).to("out"));
        add("flat map", in -> in.flatMapValues(value -> List.of(value, "x bad", value))
                .mapValues(Letters::good).to("out"));
        add("aggregate", in -> in.groupByKey().aggregate(
                () -> "", (k, v, sum) -> good(v), store(false)).toStream().to("out"));
        add("map to a pair", in -> in.map((k, v) -> KeyValue.pair(k, good(v))).to("out"));
        add("serialization", in -> in.to("out", Produced.with(Serdes.String(), picky())));
        add("serialization for a repartition topic", in -> in.selectKey((k, v) -> "x" + k)
                .repartition(Repartitioned.<String, String>as("again").withValueSerde(picky())).to("out"));
        programs.put("global table", builder -> {
            builder.globalTable("names", Consumed.with(Serdes.String(), refusing()));
            builder.<String, String>stream("in").to("out");
        });
        inputs.put("global table", List.of(new Given(11, "names", "b", "bad")));
        programs.put("global processor", builder -> {
            builder.addGlobalStore(
                    Stores.keyValueStoreBuilder(
                            Stores.inMemoryKeyValueStore("global"), Serdes.String(), Serdes.String()),
                    "names", Consumed.with(Serdes.String(), Serdes.String()),
                    () -> new Processor<String, String, Void, Void>() {
                        @Override
                        public void process(Record<String, String> record) {
                            good(record.value());
                        }
                    });
            builder.<String, String>stream("in").to("out");
        });
        inputs.put("global processor", List.of(new Given(11, "names", "b", "bad")));
    }

    /** A serde that refuses to read what is bad. */
    private static Serde<String> refusing() {
        return Serdes.serdeFrom(
                (topic, value) -> value.getBytes(StandardCharsets.UTF_8),
                (topic, data) -> good(new String(data, StandardCharsets.UTF_8)));
    }

    private static Properties config(Path folder) {
        Properties config = new Properties();
        config.put("application.id", "parity");
        config.put("bootstrap.servers", "not.used:9092");
        config.put("state.dir", folder.toString());
        config.put("default.key.serde", Serdes.StringSerde.class);
        config.put("default.value.serde", Serdes.StringSerde.class);
        config.put("deserialization.exception.handler", LogAndContinueExceptionHandler.class.getName());
        config.put("processing.exception.handler", LogAndContinueProcessingExceptionHandler.class.getName());
        config.put("processing.exception.handler.global.enabled", "true");
        config.put("production.exception.handler", Resume.class.getName());
        config.put("errors.dead.letter.queue.topic.name", DLQ);
        return config;
    }

    private ObjectNode play(String name, Path folder) {
        StreamsBuilder builder = new StreamsBuilder();
        programs.get(name).accept(builder);
        Properties config = config(folder);
        ObjectNode played = JSON.createObjectNode().put("name", name);
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(config), config, Instant.EPOCH)) {
            ArrayNode given = played.putArray("input");
            for (Given each : inputs.getOrDefault(name, THREE)) {
                given.addArray().add(each.time()).add(each.topic()).add(each.key()).add(each.value());
                RecordHeaders headers = new RecordHeaders();
                headers.add("trace", each.key().getBytes(StandardCharsets.UTF_8));
                driver.createInputTopic(each.topic(), new StringSerializer(), new StringSerializer())
                        .pipeInput(new TestRecord<>(each.key(), each.value(), headers, each.time()));
            }
            played.set("letters", letters(driver));
            played.put("dropped", driver.metrics().values().stream()
                    .filter(metric -> metric.metricName().name().equals("dropped-records-total"))
                    .mapToDouble(metric -> ((Number) metric.metricValue()).doubleValue())
                    .sum());
        }
        return played;
    }

    private static ArrayNode letters(TopologyTestDriver driver) {
        ArrayNode letters = JSON.createArrayNode();
        List<TestRecord<byte[], byte[]>> records = new ArrayList<>();
        if (driver.producedTopicNames().contains(DLQ)) {
            records = driver.createOutputTopic(DLQ, new ByteArrayDeserializer(), new ByteArrayDeserializer())
                    .readRecordsToList();
        }
        for (TestRecord<byte[], byte[]> record : records) {
            ObjectNode letter = letters.addObject();
            letter.put("key", text(record.key())).put("value", text(record.value())).put("ts", record.timestamp());
            ArrayNode headers = letter.putArray("headers");
            record.headers().forEach(header -> headers.addArray().add(header.key()).add(text(header.value())));
        }
        return letters;
    }

    private static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Letters letters = new Letters();
        letters.addAll();
        int number = 0;
        for (String name : letters.programs.keySet()) {
            Path folder = Path.of(arguments[0], "program" + number++);
            answers.println(JSON.writeValueAsString(letters.play(name, folder)));
            answers.flush();
        }
    }
}

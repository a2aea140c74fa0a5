import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * Kafka Streams' side of the comparison: one workload, one stream thread, every setting that bears on speed at its default.
 * Prints one JSON line per event (first, half, processed, closed) with the wall clock in ms; benchmarks/measure.py reads them.
 */
public final class Bench {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final Serde<String> STRING = Serdes.String();
    private static final Serde<JsonNode> JSON = Serdes.serdeFrom(
        (topic, node) -> {
            try {
                return MAPPER.writeValueAsBytes(node);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        },
        (topic, bytes) -> {
            try {
                return MAPPER.readTree(bytes);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        });

    private static final Duration WINDOW = Duration.ofMinutes(1);
    private static final Duration GAP = Duration.ofMillis(500);
    private static final Duration GRACE = Duration.ofMinutes(1);
    private static final Duration SHORT_WINDOW = Duration.ofSeconds(1);
    private static final Duration SHORT_GRACE = Duration.ofSeconds(10);
    private static final Duration APART = Duration.ofMillis(200);

    private static final String STORE = "payments-per-user";
    private static final int SAMPLED = 20_000; // benchmarks/recovery.py compares them

    private static final LongAdder processed = new LongAdder();
    private static volatile boolean begun = false;

    private Bench() {
    }

    /** Arguments: workload, number of records, bootstrap servers, application id, output topic, state directory, guarantee. */
    public static void main(String[] arguments) throws Exception {
        String workload = arguments[0];
        long records = Long.parseLong(arguments[1]);
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[2]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[3]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, arguments[5]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[6]);

        KafkaStreams streams = new KafkaStreams(topology(workload, arguments[4]), config);
        if (workload.equals("restore")) {
            restore(streams, records);
            return;
        }
        streams.start();
        await(records / 2, streams);
        event("half");
        await(records, streams);
        event("processed");
        if (workload.equals("foreign-key-join")) {
            System.in.read(); // it goes on in topics of its own: whoever started this says when the output is whole
        }
        streams.close(Duration.ofSeconds(60));
        event("closed");
    }

    /** The input is empty, the changelog is not: what is counted are the records that are restored. */
    private static void restore(KafkaStreams streams, long records) throws Exception {
        streams.setGlobalStateRestoreListener(new StateRestoreListener() {
            @Override
            public synchronized void onRestoreStart(TopicPartition partition, String store, long from, long to) {
                if (!begun) {
                    begun = true;
                    event("first");
                }
            }

            @Override
            public void onBatchRestored(TopicPartition partition, String store, long end, long restored) {
                processed.add(restored);
            }

            @Override
            public void onRestoreEnd(TopicPartition partition, String store, long restored) {
            }
        });
        streams.start();
        await(records / 2, streams);
        event("half");
        await(records, streams);
        while (streams.state() != KafkaStreams.State.RUNNING) {
            Thread.sleep(5);
        }
        event("processed");
        ReadOnlyKeyValueStore<String, Long> counts = streams.store(
            StoreQueryParameters.fromNameAndType(STORE, QueryableStoreTypes.keyValueStore()));
        for (int number = 0; number < SAMPLED; number++) {
            Long count = counts.get("user-" + number);
            if (count != null) {
                System.out.printf("{\"event\":\"sample\",\"user\":%d,\"count\":%d}%n", number, count);
            }
        }
        // Else the next run would wait until the group has missed this one.
        streams.close(new KafkaStreams.CloseOptions().leaveGroup(true).timeout(Duration.ofSeconds(60)));
        event("closed");
    }

    private static Topology topology(String workload, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        switch (workload) {
            case "json", "json-wide" -> counted(builder.stream("bench", Consumed.with(STRING, JSON)))
                .filter((user, payment) -> payment.get("amount").asDouble() > 1000)
                .mapValues(Bench::inCents)
                .to(output, Produced.with(STRING, JSON));
            case "count", "count-large", "count-hot" -> counted(builder.stream("bench", Consumed.with(STRING, STRING)))
                .groupByKey()
                .count()
                .toStream()
                .to(output, Produced.with(STRING, Serdes.Long()));
            case "restore" -> builder.stream("bench", Consumed.with(STRING, STRING))
                .groupByKey()
                .count(Materialized.as(STORE))
                .toStream()
                .to(output, Produced.with(STRING, Serdes.Long()));
            case "join" -> {
                KTable<String, String> users = builder.table("users", Consumed.with(STRING, STRING));
                counted(builder.stream("bench", Consumed.with(STRING, STRING)))
                    .join(users, (payment, user) -> payment + user)
                    .to(output, Produced.with(STRING, STRING));
            }
            case "window-sum" -> counted(builder.stream("bench", Consumed.with(STRING, JSON)))
                .mapValues(payment -> payment.get("amount").asDouble())
                .groupByKey(Grouped.with(STRING, Serdes.Double()))
                .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE))
                .aggregate(() -> 0.0, (user, amount, total) -> total + amount, Materialized.with(STRING, Serdes.Double()))
                .toStream()
                .to(output, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW.toMillis()), Serdes.Double()));
            case "window-1s", "window-late" -> counted(builder.stream("bench", Consumed.with(STRING, STRING)))
                .groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(SHORT_WINDOW, SHORT_GRACE))
                .count()
                .toStream()
                .to(output, Produced.with(
                    WindowedSerdes.timeWindowedSerdeFrom(String.class, SHORT_WINDOW.toMillis()), Serdes.Long()));
            case "session-count", "session-dense" -> counted(builder.stream("bench", Consumed.with(STRING, STRING)))
                .groupByKey()
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(GAP, GRACE))
                .count()
                .toStream()
                .to(output, Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), Serdes.Long()));
            case "stream-join" -> counted(builder.stream("clicks", Consumed.with(STRING, STRING)))
                .join(
                    counted(builder.stream("views", Consumed.with(STRING, STRING))),
                    (click, view) -> click.length() + "/" + view.length(),
                    JoinWindows.ofTimeDifferenceAndGrace(APART, APART),
                    StreamJoined.with(STRING, STRING, STRING))
                .to(output, Produced.with(STRING, STRING));
            case "table-join" -> {
                KTable<String, String> views = table(builder, "views", true);
                table(builder, "clicks", true)
                    .join(views, (click, view) -> click + view)
                    .toStream()
                    .to(output, Produced.with(STRING, STRING));
            }
            case "foreign-key-join" -> {
                KTable<String, String> buyers = table(builder, "buyers", false);
                table(builder, "orders", false)
                    .join(buyers, order -> order.substring(0, order.indexOf('|')), (order, buyer) -> order + "|" + buyer)
                    .toStream()
                    .to(output, Produced.with(STRING, STRING));
            }
            default -> throw new IllegalArgumentException("unknown workload " + workload);
        }
        return builder.build();
    }

    private static KTable<String, String> table(StreamsBuilder builder, String topic, boolean cached) {
        Materialized<String, String, KeyValueStore<Bytes, byte[]>> as = Materialized.with(STRING, STRING);
        return counted(builder.stream(topic, Consumed.with(STRING, STRING)))
            .toTable(cached ? as : as.withCachingDisabled());
    }

    private static JsonNode inCents(JsonNode payment) {
        ObjectNode cents = MAPPER.createObjectNode();
        cents.put("user", payment.get("user").asText());
        cents.put("cents", (long) (payment.get("amount").asDouble() * 100));
        return cents;
    }

    private static <V> KStream<String, V> counted(KStream<String, V> stream) {
        return stream.peek((key, value) -> {
            if (!begun) {
                begun = true;
                event("first");
            }
            processed.increment();
        });
    }

    private static void await(long records, KafkaStreams streams) throws InterruptedException {
        while (processed.sum() < records) {
            if (streams.state() == KafkaStreams.State.ERROR) {
                throw new IllegalStateException("Kafka Streams failed after " + processed.sum() + " records");
            }
            Thread.sleep(5);
        }
    }

    private static void event(String name) {
        System.out.printf("{\"event\":\"%s\",\"at_ms\":%d,\"records\":%d}%n", name, System.currentTimeMillis(), processed.sum());
        System.out.flush();
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.state.QueryableStoreType;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/**
 * Takes over applications: a real {@link KafkaStreams} on a real broker, whose changelogs somebody else has written.
 *
 * <p>One case a line on standard input, with {@code application}, the records of its {@code topics}, and which of them
 * were {@code read} to the end; one answer a line on standard output, in any order: what its {@code stores} hold once
 * they are restored, or {@code error}. Arguments: a folder for state, the broker's address.
 */
public final class Restorer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int AT_ONCE = 4;
    private static final long RUNNING_WITHIN_SECONDS = 90;
    private static final List<QueryableStoreType<?>> TYPES = List.of(
            QueryableStoreTypes.timestampedKeyValueStore(),
            QueryableStoreTypes.keyValueStore(),
            QueryableStoreTypes.timestampedWindowStore(),
            QueryableStoreTypes.windowStore(),
            QueryableStoreTypes.sessionStore());

    private final Path stateFolder;
    private final String broker;
    private final Admin admin;
    private final KafkaProducer<byte[], byte[]> producer;

    private Restorer(Path stateFolder, String broker) {
        this.stateFolder = stateFolder;
        this.broker = broker;
        Map<String, Object> client = Map.of("bootstrap.servers", broker);
        admin = Admin.create(client);
        producer = new KafkaProducer<>(client, new ByteArraySerializer(), new ByteArraySerializer());
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints must not come between the answers
        Restorer restorer = new Restorer(Path.of(arguments[0]), arguments[1]);
        ExecutorService workers = Executors.newFixedThreadPool(AT_ONCE);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            workers.submit(() -> {
                ObjectNode answer = restorer.answer(asked);
                synchronized (answers) {
                    answers.println(answer);
                    answers.flush();
                }
            });
        }
        workers.shutdown();
        workers.awaitTermination(1, TimeUnit.HOURS);
    }

    private ObjectNode answer(JsonNode asked) {
        ObjectNode answer = JSON.createObjectNode();
        answer.set("name", asked.get("name"));
        try {
            Path folder = Files.createTempDirectory(Files.createDirectories(stateFolder), "restored");
            try {
                fill(asked);
                restore(asked, folder, answer);
            } finally {
                admin.deleteTopics(topics(asked));
                Utils.delete(folder.toFile());
            }
        } catch (Exception | StackOverflowError error) {
            answer.put("error", error.getClass().getSimpleName() + ": " + error.getMessage());
        }
        return answer;
    }

    private static List<String> topics(JsonNode asked) {
        List<String> topics = new ArrayList<>();
        asked.required("topics").fieldNames().forEachRemaining(topics::add);
        return topics;
    }

    private void fill(JsonNode asked) throws Exception {
        List<NewTopic> created = topics(asked).stream()
                .map(topic -> new NewTopic(topic, 1, (short) 1).configs(Map.of("retention.ms", "-1")))
                .toList();
        admin.createTopics(created).all().get();
        for (Map.Entry<String, JsonNode> topic : asked.get("topics").properties()) {
            for (JsonNode record : topic.getValue()) {
                RecordHeaders headers = new RecordHeaders();
                record.get(3).forEach(header -> headers.add(header.get(0).asText(), bytes(header.get(1))));
                Long timestamp = record.get(2).isNull() ? null : record.get(2).asLong();
                producer.send(new ProducerRecord<>(
                        topic.getKey(), 0, timestamp, bytes(record.get(0)), bytes(record.get(1)), headers));
            }
        }
        producer.flush();
        Map<TopicPartition, OffsetAndMetadata> read = new HashMap<>();
        for (JsonNode topic : asked.required("read")) {
            long end = asked.get("topics").get(topic.asText()).size();
            read.put(new TopicPartition(topic.asText(), 0), new OffsetAndMetadata(end));
        }
        admin.alterConsumerGroupOffsets(asked.required("application").asText(), read).all().get();
    }

    private static byte[] bytes(JsonNode hex) {
        return hex.isNull() ? null : HexFormat.of().parseHex(hex.asText());
    }

    private void restore(JsonNode asked, Path folder, ObjectNode answer) throws Exception {
        Properties config = Player.config(asked.required("config"), folder);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, asked.required("application").asText());
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, broker);
        Topology topology = Player.topology(asked.required("topology"), new Steps(), config);
        CountDownLatch settled = new CountDownLatch(1);
        List<Throwable> failed = new ArrayList<>();
        try (KafkaStreams streams = new KafkaStreams(topology, config)) {
            streams.setUncaughtExceptionHandler(error -> {
                failed.add(error);
                settled.countDown();
                return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.setStateListener((now, before) -> {
                if (now == KafkaStreams.State.RUNNING) {
                    settled.countDown();
                }
            });
            streams.start();
            boolean inTime = settled.await(RUNNING_WITHIN_SECONDS, TimeUnit.SECONDS);
            if (!failed.isEmpty()) {
                answer.put("error", words(failed.get(0)));
                return;
            }
            if (!inTime) {
                answer.put("error", "not RUNNING but " + streams.state());
                return;
            }
            ObjectNode stores = answer.putObject("stores");
            for (JsonNode name : asked.required("changelogged")) {
                write(streams, name.asText(), stores);
            }
            streams.close(Duration.ofSeconds(30));
        }
    }

    private static String words(Throwable error) {
        return error.getCause() == null ? error.toString() : error + ", caused by " + words(error.getCause());
    }

    /** What cannot be read from end to end is left out. */
    private static void write(KafkaStreams streams, String name, ObjectNode stores) {
        for (QueryableStoreType<?> type : TYPES) {
            try {
                Object store = streams.store(StoreQueryParameters.fromNameAndType(name, type));
                Contents.write(store, stores.putArray(name));
                return;
            } catch (InvalidStateStoreException error) {
                stores.remove(name); // of another type
            }
        }
    }
}

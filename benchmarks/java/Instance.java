import java.io.IOException;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Kafka Streams' side of benchmarks/deployment.py: one of several processes of an application that keeps the last value of each
 * key. Prints a JSON line each 100 ms that says what it does, and closes when its standard input ends.
 */
public final class Instance {
    private static volatile boolean ending = false;

    private Instance() {
    }

    /** Arguments: input topic, output topic, then settings as key=value. */
    public static void main(String[] arguments) throws Exception {
        Properties config = new Properties();
        for (int at = 2; at < arguments.length; at++) {
            String[] entry = arguments[at].split("=", 2);
            config.put(entry[0], entry[1]);
        }
        Serde<String> text = Serdes.String();
        Serde<byte[]> bytes = Serdes.ByteArray();
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[0], Consumed.with(text, bytes))
            .groupByKey(Grouped.with(text, bytes))
            .reduce((before, last) -> last,
                Materialized.<String, byte[], KeyValueStore<Bytes, byte[]>>as("last").withKeySerde(text).withValueSerde(bytes)
                    .withCachingDisabled())
            .toStream()
            .to(arguments[1], Produced.with(text, bytes));
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.start();
        Thread reader = new Thread(Instance::awaitEnd);
        reader.setDaemon(true);
        reader.start();
        while (!ending) {
            tell(streams);
            Thread.sleep(100);
        }
        // Else the next one would wait until the group has missed this one.
        streams.close(new KafkaStreams.CloseOptions().leaveGroup(true).timeout(java.time.Duration.ofSeconds(30)));
    }

    private static void awaitEnd() {
        try {
            while (System.in.read() >= 0) {
            }
        } catch (IOException error) {
            // It has ended, in a way.
        }
        ending = true;
    }

    private static void tell(KafkaStreams streams) {
        String active = streams.metadataForLocalThreads().stream().flatMap(thread -> thread.activeTasks().stream())
            .map(task -> String.valueOf(task.taskId().partition())).collect(Collectors.joining(","));
        String standby = streams.metadataForLocalThreads().stream().flatMap(thread -> thread.standbyTasks().stream())
            .map(task -> String.valueOf(task.taskId().partition())).collect(Collectors.joining(","));
        long lag;
        try {
            lag = streams.allLocalStorePartitionLags().values().stream().flatMap(of -> of.values().stream())
                .mapToLong(of -> of.offsetLag()).sum();
        } catch (RuntimeException error) {
            lag = -1; // not known yet
        }
        System.out.printf("{\"state\":\"%s\",\"active\":[%s],\"standby\":[%s],\"lag\":%d}%n",
            streams.state(), active, standby, lag);
        System.out.flush();
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * Runs parity cases as a real {@link KafkaStreams}, one application at a time.
 *
 * <p>One JSON object a line on standard input, with what to {@code do}; one answer a line on standard output.
 * {@code start}: with {@code config}, {@code topology}; answers when the application runs, or has failed.
 * {@code stop}: with {@code leave}, whether it leaves the group. Argument: a folder for state.
 */
public final class Application {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long RUNNING_WITHIN_SECONDS = 300;

    private final Path folder;
    private KafkaStreams streams;

    private Application(Path folder) {
        this.folder = folder;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints must not come between the answers
        Application application = new Application(Path.of(arguments[0]));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(application.answer(JSON.readTree(line)));
            answers.flush();
        }
        System.exit(0);
    }

    private ObjectNode answer(JsonNode asked) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            switch (asked.required("do").asText()) {
                case "start" -> start(asked, answer);
                case "stop" -> stop(asked.required("leave").asBoolean());
                default -> throw new IllegalArgumentException(asked.toString());
            }
            answer.put("state", streams.state().name());
        } catch (Exception | StackOverflowError error) {
            answer.put("error", error.toString());
        }
        return answer;
    }

    private void start(JsonNode asked, ObjectNode answer) throws InterruptedException {
        Properties config = Player.config(asked.required("config"), folder);
        Topology topology = Player.topology(asked.required("topology"), new Steps(), config);
        answer.put("description", topology.describe().toString());
        CountDownLatch settled = new CountDownLatch(1);
        AtomicReference<Throwable> failed = new AtomicReference<>();
        streams = new KafkaStreams(topology, config);
        streams.setUncaughtExceptionHandler(error -> {
            failed.compareAndSet(null, error);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING || now == KafkaStreams.State.ERROR) {
                settled.countDown();
            }
        });
        streams.start();
        if (!settled.await(RUNNING_WITHIN_SECONDS, TimeUnit.SECONDS)) {
            answer.put("error", "neither RUNNING nor ERROR in time");
        }
        if (failed.get() != null) {
            answer.put("error", words(failed.get()));
        }
    }

    private static String words(Throwable error) {
        return error.getCause() == null ? error.toString() : error + ", caused by " + words(error.getCause());
    }

    private void stop(boolean leave) {
        GroupMembershipOperation membership =
                leave ? GroupMembershipOperation.LEAVE_GROUP : GroupMembershipOperation.REMAIN_IN_GROUP;
        boolean inTime = streams.close(
                CloseOptions.groupMembershipOperation(membership).withTimeout(Duration.ofSeconds(60)));
        if (!inTime) {
            throw new IllegalStateException("not closed within 60 s");
        }
    }
}

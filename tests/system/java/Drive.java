import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.tests.RelationalSmokeTest;
import org.apache.kafka.streams.tests.SmokeTestClient;
import org.apache.kafka.streams.tests.SmokeTestDriver;
import org.apache.kafka.streams.tests.SmokeTestUtil.VerificationResult;

/**
 * Kafka Streams' own system tests without Kafka Streams: generates their input, and verifies what another application
 * makes of it.
 *
 * <p>Arguments: {@code describe} and a program, which prints its topology; or {@code drive}, a program, the broker, the
 * guarantee, the seconds of input, and two sizes. The last line is {@code PASSED} or begins with {@code FAILED}.
 */
public final class Drive {
    private static final Duration VERIFIED_WITHIN = Duration.ofMinutes(5);

    private Drive() {}

    public static void main(String[] arguments) throws Exception {
        boolean relational = arguments[1].equals("relational");
        if (arguments[0].equals("describe")) {
            System.out.print((relational
                            ? RelationalSmokeTest.App.getTopology()
                            : new SmokeTestClient("described").getTopology())
                    .describe());
            return;
        }
        String broker = arguments[2];
        boolean exactlyOnce = arguments[3].equals(StreamsConfig.EXACTLY_ONCE_V2);
        Duration time = Duration.ofSeconds(Long.parseLong(arguments[4]));
        int first = Integer.parseInt(arguments[5]);
        int second = Integer.parseInt(arguments[6]);
        String failed = relational ? relational(broker, time, first, second) : smoke(broker, time, first, second, exactlyOnce);
        System.out.println(failed == null ? "PASSED" : "FAILED " + failed);
        System.exit(0);
    }

    private static String smoke(String broker, Duration time, int keys, int recordsPerKey, boolean exactlyOnce) {
        Map<String, Set<Integer>> sent = SmokeTestDriver.generate(broker, keys, recordsPerKey, time);
        System.out.println("GENERATED");
        VerificationResult result = SmokeTestDriver.verify(broker, sent, recordsPerKey, exactlyOnce);
        return result.passed() ? null : result.result();
    }

    private static String relational(String broker, Duration time, int articles, int comments)
            throws InterruptedException {
        RelationalSmokeTest.DataSet.generate(articles, comments).produce(broker, time);
        System.out.println("GENERATED");
        boolean passed = RelationalSmokeTest.App.verifySync(broker, Instant.now().plus(VERIFIED_WITHIN));
        return passed ? null : "the verification of RelationalSmokeTest";
    }
}

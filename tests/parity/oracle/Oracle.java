import com.fasterxml.jackson.core.JacksonException;
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
import java.util.function.Function;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.rocksdb.RocksDBException;

/**
 * Plays parity cases on Kafka Streams: one case a line on standard input, one answer a line on standard output.
 *
 * <p>An answer is the case with what Kafka Streams made of it, {@code {"name": …, "error": …}} where it refused, or
 * {@code {"name": …, "broken": …}} where it could not work, which says nothing of the case: no file could be opened, the
 * disk is full. The format is explained in docs/PARITY.md. The only argument is a folder for the state of the stores.
 */
public final class Oracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Oracle() {}

    public static void main(String[] arguments) throws IOException {
        Path stateFolder = Path.of(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints must not come between the answers
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (!line.isBlank()) {
                answers.println(answer(line, stateFolder));
                answers.flush();
            }
        }
    }

    private static String answer(String line, Path stateFolder) throws IOException {
        JsonNode name = JSON.nullNode();
        try {
            JsonNode parsed = JSON.readTree(line);
            name = parsed.path("name");
            return JSON.writeValueAsString(
                    inOwnFolder(stateFolder, folder -> Player.play((ObjectNode) parsed, folder)));
        } catch (Exception | StackOverflowError | OutOfMemoryError error) {
            ObjectNode refused = JSON.createObjectNode();
            refused.set("name", name.isMissingNode() ? JSON.nullNode() : name);
            refused.put(isOfTheMachine(error) ? "broken" : "error", words(error));
            return JSON.writeValueAsString(refused);
        }
    }

    /** A folder of its own for each case: what one case leaves open or locked is in no other case's way. */
    private static ObjectNode inOwnFolder(Path stateFolder, Function<Path, ObjectNode> play) throws IOException {
        Path folder = Files.createTempDirectory(Files.createDirectories(stateFolder), "case");
        try {
            return play.apply(folder);
        } finally {
            Utils.delete(folder.toFile());
        }
    }

    /** Whether files, folders or the store's database are what failed at first: no topology can be at fault there. */
    private static boolean isOfTheMachine(Throwable error) {
        Throwable first = first(error);
        return first instanceof RocksDBException
                || first instanceof ProcessorStateException
                || (first instanceof IOException && !(first instanceof JacksonException));
    }

    private static Throwable first(Throwable error) {
        Throwable first = error;
        while (first.getCause() != null) {
            first = first.getCause();
        }
        return first;
    }

    private static String words(Throwable error) {
        String words = error.getClass().getSimpleName() + ": " + error.getMessage();
        return first(error) != error ? words + ": " + first(error).getMessage() : words;
    }
}

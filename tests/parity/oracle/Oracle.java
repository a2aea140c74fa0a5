import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * Plays parity cases on Kafka Streams: one case a line on standard input, one answer a line on standard output.
 *
 * <p>An answer is the case with what Kafka Streams made of it, or {@code {"name": …, "error": …}} where it refused. The
 * format is explained in docs/PARITY.md. The only argument is a folder for the state of the stores.
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
                answers.println(JSON.writeValueAsString(answer(line, stateFolder)));
                answers.flush();
            }
        }
    }

    private static ObjectNode answer(String line, Path stateFolder) {
        JsonNode name = JSON.nullNode();
        try {
            JsonNode parsed = JSON.readTree(line);
            name = parsed.path("name");
            return Player.play((ObjectNode) parsed, stateFolder);
        } catch (Exception | StackOverflowError error) {
            ObjectNode refused = JSON.createObjectNode();
            refused.set("name", name.isMissingNode() ? JSON.nullNode() : name);
            refused.put("error", error.getClass().getSimpleName() + ": " + error.getMessage());
            return refused;
        }
    }
}

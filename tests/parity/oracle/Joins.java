import com.fasterxml.jackson.databind.JsonNode;
import java.util.function.Function;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.state.KeyValueStore;

/** The steps that join two inputs; what they make is text. */
final class Joins {
    private static final ValueJoiner<Object, Object, Object> PAIR = Functions.joiner();

    private Joins() {}

    static Steps.Made joined(String op, JsonNode step, Steps.Made left, Steps.Made right, Steps steps) {
        String kind = Steps.text(step, "kind");
        Object result = switch (op) {
            case "stream_table" -> streamTable(kind, step, left, right);
            case "stream_stream" -> streamStream(kind, step, left, right);
            case "stream_global" -> streamGlobal(kind, step, left, right);
            case "table_table" -> tableTable(kind, step, left, right, steps);
            default -> foreignKey(kind, step, left, right, steps);
        };
        return new Steps.Made(result, left.types().withValue("string"));
    }

    private static IllegalArgumentException unknown(String kind) {
        return new IllegalArgumentException("no such kind of join here: " + kind);
    }

    private static KStream<Object, Object> streamTable(
            String kind, JsonNode step, Steps.Made left, Steps.Made right) {
        Types types = left.types();
        Joined<Object, Object, Object> how =
                Joined.with(types.keySerde(), types.valueSerde(), right.types().valueSerde());
        if (step.has("name")) {
            how = how.withName(Steps.text(step, "name"));
        }
        if (step.has("grace_ms")) {
            how = how.withGracePeriod(Steps.millis(step, "grace_ms"));
        }
        KTable<Object, Object> table = right.table();
        return switch (kind) {
            case "inner" -> left.stream().join(table, PAIR, how);
            case "left" -> left.stream().leftJoin(table, PAIR, how);
            default -> throw unknown(kind);
        };
    }

    private static KStream<Object, Object> streamStream(
            String kind, JsonNode step, Steps.Made left, Steps.Made right) {
        Types types = left.types();
        StreamJoined<Object, Object, Object> how =
                StreamJoined.with(types.keySerde(), types.valueSerde(), right.types().valueSerde());
        how = step.has("name") ? how.withName(Steps.text(step, "name")) : how;
        how = step.has("store") ? how.withStoreName(Steps.text(step, "store")) : how;
        how = step.path("logging").asBoolean(true) ? how : how.withLoggingDisabled();
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(
                        Steps.millis(step, "before_ms"), Steps.millis(step, "grace_ms"))
                .after(Steps.millis(step, "after_ms"));
        KStream<Object, Object> other = right.stream();
        return switch (kind) {
            case "inner" -> left.stream().join(other, PAIR, windows, how);
            case "left" -> left.stream().leftJoin(other, PAIR, windows, how);
            case "outer" -> left.stream().outerJoin(other, PAIR, windows, how);
            default -> throw unknown(kind);
        };
    }

    private static KStream<Object, Object> streamGlobal(
            String kind, JsonNode step, Steps.Made left, Steps.Made right) {
        var selector = Functions.selector(Steps.fn(step));
        Named named = Steps.named(step);
        return switch (kind) {
            case "inner" -> left.stream().join(right.globalTable(), selector, PAIR, named);
            case "left" -> left.stream().leftJoin(right.globalTable(), selector, PAIR, named);
            default -> throw unknown(kind);
        };
    }

    private static KTable<Object, Object> tableTable(
            String kind, JsonNode step, Steps.Made left, Steps.Made right, Steps steps) {
        // Its serdes are given, so it has a store, though maybe none with a name.
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> kept =
                steps.materialized(step, left.types().withValue("string"));
        Named named = Steps.named(step);
        KTable<Object, Object> table = left.table();
        KTable<Object, Object> other = right.table();
        return switch (kind) {
            case "inner" -> table.join(other, PAIR, named, kept);
            case "left" -> table.leftJoin(other, PAIR, named, kept);
            case "outer" -> table.outerJoin(other, PAIR, named, kept);
            default -> throw unknown(kind);
        };
    }

    /** The foreign key is made of the value alone. */
    private static KTable<Object, Object> foreignKey(
            String kind, JsonNode step, Steps.Made left, Steps.Made right, Steps steps) {
        var selector = Functions.selector(Steps.fn(step));
        Function<Object, Object> foreignKey = value -> selector.apply(null, value);
        KTable<Object, Object> table = left.table();
        KTable<Object, Object> other = right.table();
        if (!Stored.isSaid(step) && !step.has("name")) {
            return switch (kind) {
                case "inner" -> table.join(other, foreignKey, PAIR);
                case "left" -> table.leftJoin(other, foreignKey, PAIR);
                default -> throw unknown(kind);
            };
        }
        TableJoined<Object, Object> how = TableJoined.as(step.has("name") ? Steps.text(step, "name") : null);
        if (!Stored.isSaid(step)) {
            return switch (kind) {
                case "inner" -> table.join(other, foreignKey, PAIR, how);
                case "left" -> table.leftJoin(other, foreignKey, PAIR, how);
                default -> throw unknown(kind);
            };
        }
        var kept = steps.materialized(step, left.types().withValue("string"));
        return switch (kind) {
            case "inner" -> table.join(other, foreignKey, PAIR, how, kept);
            case "left" -> table.leftJoin(other, foreignKey, PAIR, how, kept);
            default -> throw unknown(kind);
        };
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.time.Instant;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Merger;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.Suppressed.StrictBufferConfig;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** The steps that group, window, aggregate and cogroup. */
@SuppressWarnings("unchecked") // cases know the types of keys and values by name only
final class Aggregates {
    private Aggregates() {}

    static Steps.Made grouped(String op, JsonNode step, Steps.Made input) {
        Types types = input.types();
        return switch (op) {
            case "group_by_key" ->
                    new Steps.Made(input.stream().groupByKey(Steps.groupedBy(step, types)), types);
            case "group_by" -> {
                Types keyed = types.withKey("string");
                yield new Steps.Made(input.isTable() ? ofTable(step, input, keyed) : input.stream()
                        .groupBy(Functions.selector(Steps.fn(step)), Steps.groupedBy(step, keyed)), keyed);
            }
            default -> new Steps.Made(windowedBy(op, step, (KGroupedStream<Object, Object>) input.what()), types);
        };
    }

    private static KGroupedTable<Object, Object> ofTable(JsonNode step, Steps.Made input, Types keyed) {
        var selector = Functions.selector(Steps.fn(step));
        return input.<Object>table().groupBy(
                (key, value) -> KeyValue.pair(selector.apply(key, value), value), Steps.groupedBy(step, keyed));
    }

    private static Object windowedBy(String op, JsonNode step, KGroupedStream<Object, Object> grouped) {
        Duration grace = Duration.ofMillis(step.path("grace_ms").asLong());
        EmitStrategy emit = step.path("emit_final").asBoolean(false)
                ? EmitStrategy.onWindowClose()
                : EmitStrategy.onWindowUpdate();
        return switch (op) {
            case "time_window" -> {
                TimeWindows windows = TimeWindows.ofSizeAndGrace(Steps.millis(step, "size_ms"), grace);
                yield grouped.windowedBy(step.has("advance_ms")
                                ? windows.advanceBy(Steps.millis(step, "advance_ms"))
                                : windows)
                        .emitStrategy(emit);
            }
            case "unlimited_window" -> grouped.windowedBy(unlimited(step));
            case "sliding_window" -> grouped.windowedBy(
                            SlidingWindows.ofTimeDifferenceAndGrace(Steps.millis(step, "size_ms"), grace))
                    .emitStrategy(emit);
            default -> grouped.windowedBy(
                            SessionWindows.ofInactivityGapAndGrace(Steps.millis(step, "gap_ms"), grace))
                    .emitStrategy(emit);
        };
    }

    private static UnlimitedWindows unlimited(JsonNode step) {
        return UnlimitedWindows.of().startOn(Instant.ofEpochMilli(step.path("start_ms").asLong()));
    }

    static Steps.Made aggregated(String op, JsonNode step, Steps.Made input, Steps steps) {
        Types types = switch (op) {
            case "count" -> input.types().withValue("long");
            case "aggregate" -> input.types().withValue(
                    Steps.text(step, "init").equals("zero") ? "long" : "string");
            default -> input.types();
        };
        Object table;
        if (input.what() instanceof KGroupedStream) {
            table = plain(op, step, (KGroupedStream<Object, Object>) input.what(), types, steps);
        } else if (input.what() instanceof KGroupedTable) {
            table = ofGroupedTable(op, step, (KGroupedTable<Object, Object>) input.what(), types, steps);
        } else if (input.what() instanceof TimeWindowedKStream) {
            table = inWindows(op, step, (TimeWindowedKStream<Object, Object>) input.what(), types);
        } else {
            table = inSessions(op, step, (SessionWindowedKStream<Object, Object>) input.what(), types);
        }
        return new Steps.Made(table, types);
    }

    private static KTable<Object, Object> plain(
            String op, JsonNode step, KGroupedStream<Object, Object> grouped, Types types, Steps steps) {
        Named named = Steps.named(step);
        return switch (op) {
            case "count" -> (KTable<Object, Object>)
                    (KTable<?, ?>) grouped.count(named, counts(steps.materialized(step, types)));
            case "reduce" -> grouped.reduce(Functions.reducer(Steps.fn(step)), named, steps.materialized(step, types));
            default -> grouped.aggregate(
                    Functions.initial(Steps.text(step, "init")),
                    Functions.aggregator(Steps.fn(step)),
                    named,
                    steps.materialized(step, types));
        };
    }

    private static KTable<Object, Object> ofGroupedTable(
            String op, JsonNode step, KGroupedTable<Object, Object> grouped, Types types, Steps steps) {
        Named named = Steps.named(step);
        return switch (op) {
            case "count" -> (KTable<Object, Object>)
                    (KTable<?, ?>) grouped.count(named, counts(steps.materialized(step, types)));
            case "reduce" -> grouped.reduce(
                    Functions.reducer(Steps.fn(step)),
                    Functions.reducer(Steps.text(step, "sub")),
                    named,
                    steps.materialized(step, types));
            default -> grouped.aggregate(
                    Functions.initial(Steps.text(step, "init")),
                    Functions.aggregator(Steps.fn(step)),
                    Functions.aggregator(Steps.text(step, "sub")),
                    named,
                    steps.materialized(step, types));
        };
    }

    private static Object inWindows(
            String op, JsonNode step, TimeWindowedKStream<Object, Object> windows, Types types) {
        Named named = Steps.named(step);
        return switch (op) {
            case "count" -> windows.count(named, counts(Stored.<WindowStore<Bytes, byte[]>>as(step, types)));
            case "reduce" -> windows.reduce(Functions.reducer(Steps.fn(step)), named, Stored.as(step, types));
            default -> windows.aggregate(
                    Functions.initial(Steps.text(step, "init")),
                    Functions.aggregator(Steps.fn(step)),
                    named,
                    Stored.<WindowStore<Bytes, byte[]>>as(step, types));
        };
    }

    private static Object inSessions(
            String op, JsonNode step, SessionWindowedKStream<Object, Object> sessions, Types types) {
        Named named = Steps.named(step);
        return switch (op) {
            case "count" -> sessions.count(named, counts(Stored.<SessionStore<Bytes, byte[]>>as(step, types)));
            case "reduce" -> sessions.reduce(Functions.reducer(Steps.fn(step)), named, Stored.as(step, types));
            default -> sessions.aggregate(
                    Functions.initial(Steps.text(step, "init")),
                    Functions.aggregator(Steps.fn(step)),
                    merger(),
                    named,
                    Stored.<SessionStore<Bytes, byte[]>>as(step, types));
        };
    }

    private static <S extends StateStore> Materialized<Object, Long, S> counts(Materialized<Object, Object, S> how) {
        return (Materialized<Object, Long, S>) (Materialized<?, ?, S>) how;
    }

    static Steps.Made windowed(String op, JsonNode step, Steps.Made input) {
        KTable<Windowed<Object>, Object> table = input.table();
        if (op.equals("suppress")) {
            return new Steps.Made(table.suppress(suppressed(step)), input.types());
        }
        return new Steps.Made(
                table.toStream((key, value) ->
                        key.key() + "@" + key.window().start() + "/" + key.window().end()),
                input.types().withKey("string"));
    }

    private static Suppressed<? super Windowed<Object>> suppressed(JsonNode step) {
        Suppressed<? super Windowed<Object>> until = step.has("wait_ms")
                ? Suppressed.untilTimeLimit(Steps.millis(step, "wait_ms"), buffer(step))
                : Suppressed.untilWindowCloses(strict(step));
        return step.has("named") ? until.withName(Steps.text(step, "named")) : until;
    }

    /** A buffer with limits emits early, unless it stops when it is full. */
    private static BufferConfig<?> buffer(JsonNode step) {
        boolean limited = step.has("max_records") || step.has("max_bytes");
        if (!limited || step.path("stops_when_full").asBoolean(false)) {
            return strict(step);
        }
        return logged(step, limited(step, BufferConfig.unbounded().emitEarlyWhenFull()));
    }

    private static StrictBufferConfig strict(JsonNode step) {
        return logged(step, limited(step, BufferConfig.unbounded()));
    }

    private static <B extends BufferConfig<B>> B limited(JsonNode step, BufferConfig<B> buffer) {
        B some = step.has("max_records")
                ? buffer.withMaxRecords(step.get("max_records").asLong())
                : buffer.withMaxRecords(Long.MAX_VALUE);
        return step.has("max_bytes") ? some.withMaxBytes(step.get("max_bytes").asLong()) : some;
    }

    private static <B extends BufferConfig<B>> B logged(JsonNode step, B buffer) {
        return step.path("logging").asBoolean(true) ? buffer : buffer.withLoggingDisabled();
    }

    static Steps.Made cogroup(JsonNode step, Steps steps) {
        CogroupedKStream<Object, Object> together = null;
        Types keyed = null;
        for (JsonNode part : step.required("parts")) {
            Steps.Made input = steps.of(Steps.text(part, "in"));
            KGroupedStream<Object, Object> grouped = (KGroupedStream<Object, Object>) input.what();
            var aggregator = Functions.aggregator(Steps.fn(part));
            together = together == null ? grouped.cogroup(aggregator) : together.cogroup(grouped, aggregator);
            keyed = keyed == null ? input.types() : keyed;
        }
        Types types = keyed.withValue(Steps.text(step, "init").equals("zero") ? "long" : "string");
        var initializer = Functions.initial(Steps.text(step, "init"));
        return new Steps.Made(step.has("window")
                ? inWindows(step.path("window"), step, together, initializer, types)
                : together.aggregate(initializer, Steps.named(step), steps.materialized(step, types)), types);
    }

    private static Object inWindows(
            JsonNode window,
            JsonNode step,
            CogroupedKStream<Object, Object> together,
            Initializer<Object> initializer,
            Types types) {
        Duration grace = Duration.ofMillis(window.path("grace_ms").asLong());
        Named named = Steps.named(step);
        return switch (Steps.text(window, "op")) {
            case "time_window" -> {
                TimeWindows windows = TimeWindows.ofSizeAndGrace(Steps.millis(window, "size_ms"), grace);
                yield together.windowedBy(window.has("advance_ms")
                                ? windows.advanceBy(Steps.millis(window, "advance_ms"))
                                : windows)
                        .aggregate(initializer, named, Stored.<WindowStore<Bytes, byte[]>>as(step, types));
            }
            case "unlimited_window" -> together.windowedBy(unlimited(window))
                    .aggregate(initializer, named, Stored.<WindowStore<Bytes, byte[]>>as(step, types));
            case "sliding_window" -> together.windowedBy(
                            SlidingWindows.ofTimeDifferenceAndGrace(Steps.millis(window, "size_ms"), grace))
                    .aggregate(initializer, named, Stored.<WindowStore<Bytes, byte[]>>as(step, types));
            default -> together.windowedBy(
                            SessionWindows.ofInactivityGapAndGrace(Steps.millis(window, "gap_ms"), grace))
                    .aggregate(initializer, merger(), named, Stored.<SessionStore<Bytes, byte[]>>as(step, types));
        };
    }

    /** Two sessions that a record joins: longs are added, strings get a bar between them. */
    private static Merger<Object, Object> merger() {
        return (key, left, right) -> left instanceof Long
                ? (Object) ((Long) left + (Long) right)
                : left + "|" + right;
    }
}

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.function.BiConsumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.Punctuator;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;

/** Processors that show what a context does. */
final class MoreProcessors {
    private MoreProcessors() {}

    private interface Step extends BiConsumer<ProcessorContext<Object, Object>, Record<Object, Object>> {}

    static ProcessorSupplier<Object, Object, Object, Object> supplier(String name, String argument, String store) {
        return switch (name) {
            case "pass" -> of((context, record) -> context.forward(record));
            case "to_child" -> of((context, record) -> context.forward(record, argument));
            case "each_child" -> of((context, record) -> {
                for (String child : argument.split(",")) {
                    context.forward(record.withValue(record.value() + ">" + child), child);
                }
            });
            case "mark" -> of((context, record) -> {
                Headers headers = new RecordHeaders(record.headers());
                headers.add(argument, "x".getBytes(StandardCharsets.UTF_8));
                context.forward(record.withHeaders(headers).withTimestamp(record.timestamp() + 1));
                context.forward(record);
            });
            case "plain" -> of((context, record) ->
                    context.forward(new Record<>(record.key(), record.value(), record.timestamp())));
            case "meta" -> of((context, record) -> context.forward(record.withValue(meta(context, record.headers()))));
            case "count" -> of((context, record) -> {
                KeyValueStore<Object, Object> counts = context.getStateStore(store);
                if (record.key() != null) {
                    Object last = counts.get(record.key());
                    String count = String.valueOf(last == null ? 1 : Integer.parseInt((String) last) + 1);
                    counts.put(record.key(), count);
                    context.forward(record.withValue(count));
                }
            });
            case "look" -> of((context, record) -> {
                KeyValueStore<Object, Object> kept = context.getStateStore(store);
                Object found = record.key() == null ? null : kept.get(record.key());
                context.forward(record.withValue(record.value() + "/" + found));
            });
            case "ticks" -> () -> new Ticks(argument);
            default -> throw new IllegalArgumentException("unknown processor " + name);
        };
    }

    private static String meta(ProcessorContext<Object, Object> context, Headers headers) {
        StringBuilder said = new StringBuilder();
        said.append(context.recordMetadata()
                .filter(at -> at.topic() != null) // in a punctuator it is of no record
                .map(at -> at.topic() + "-" + at.partition() + "@" + at.offset())
                .orElse("none"));
        said.append(" ").append(context.currentStreamTimeMs()).append(" ").append(context.currentSystemTimeMs());
        for (Header header : headers) {
            said.append(" ").append(header.key());
        }
        return said.append(" ").append(context.taskId()).append(" ").append(context.applicationId()).toString();
    }

    private static ProcessorSupplier<Object, Object, Object, Object> of(Step step) {
        return () -> new Processor<>() {
            private ProcessorContext<Object, Object> context;

            @Override
            public void init(ProcessorContext<Object, Object> context) {
                this.context = context;
            }

            @Override
            public void process(Record<Object, Object> record) {
                step.accept(context, record);
            }
        };
    }

    static Processor<Object, Object, Void, Void> keeper(String store) {
        return new Processor<>() {
            private KeyValueStore<Object, Object> kept;

            @Override
            public void init(ProcessorContext<Void, Void> context) {
                kept = context.getStateStore(store);
            }

            @Override
            public void process(Record<Object, Object> record) {
                if (record.key() != null) {
                    kept.put(record.key(), record.value());
                }
            }
        };
    }

    static FixedKeyProcessorSupplier<Object, Object, Object> fixedKeySupplier(String function, String store) {
        String name = Functions.name(function);
        if (!name.equals("twice") && !name.equals("last")) {
            throw new IllegalArgumentException("unknown processor " + function);
        }
        return () -> new FixedKeyProcessor<>() {
            private FixedKeyProcessorContext<Object, Object> context;
            private KeyValueStore<Object, Object> lastValues;

            @Override
            public void init(FixedKeyProcessorContext<Object, Object> context) {
                this.context = context;
                lastValues = name.equals("last") ? context.getStateStore(store) : null;
            }

            @Override
            public void process(FixedKeyRecord<Object, Object> record) {
                String value = String.valueOf(record.value());
                if (lastValues == null) {
                    context.forward(record.withValue(value + "!").withTimestamp(record.timestamp() + 1));
                    context.forward(record);
                } else if (record.key() != null) {
                    context.forward(record.withValue(lastValues.get(record.key()) + "/" + value));
                    lastValues.put(record.key(), value);
                }
            }
        };
    }

    /** Schedules as "s10,w20@35,s5x3": the clock, the interval, when it starts, after how many calls it is cancelled. */
    private static final class Ticks implements Processor<Object, Object, Object, Object> {
        private static final Pattern SCHEDULE = Pattern.compile("([sw])(\\d+)(?:@(\\d+))?(?:x(\\d+))?");
        private final String schedules;
        private ProcessorContext<Object, Object> context;
        private long seen;

        Ticks(String schedules) {
            this.schedules = schedules;
        }

        @Override
        public void init(ProcessorContext<Object, Object> context) {
            this.context = context;
            for (String schedule : schedules.split(",")) {
                begin(schedule);
            }
        }

        private void begin(String schedule) {
            Matcher parts = SCHEDULE.matcher(schedule);
            if (!parts.matches()) {
                throw new IllegalArgumentException("no schedule: " + schedule);
            }
            PunctuationType clock = parts.group(1).equals("s") ? PunctuationType.STREAM_TIME : PunctuationType.WALL_CLOCK_TIME;
            Duration interval = Duration.ofMillis(Long.parseLong(parts.group(2)));
            long most = parts.group(4) == null ? Long.MAX_VALUE : Long.parseLong(parts.group(4));
            long[] calls = {0};
            Cancellable[] begun = {null};
            Punctuator tick = now -> {
                context.forward(new Record<>(schedule, now + ":" + seen + ":" + meta(context, new RecordHeaders()), now));
                calls[0]++;
                if (calls[0] >= most) {
                    begun[0].cancel();
                }
            };
            begun[0] = parts.group(3) == null
                    ? context.schedule(interval, clock, tick)
                    : context.schedule(Instant.ofEpochMilli(Long.parseLong(parts.group(3))), interval, clock, tick);
        }

        @Override
        public void process(Record<Object, Object> record) {
            seen++;
            if (record.value() != null && record.value().toString().startsWith("begin ")) {
                begin(record.value().toString().substring("begin ".length()));
            }
        }
    }
}

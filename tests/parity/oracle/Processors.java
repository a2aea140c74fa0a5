import java.time.Duration;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;

/** The processors that cases name. */
final class Processors {
    private Processors() {}

    static ProcessorSupplier<Object, Object, Object, Object> supplier(String function, String store) {
        return switch (Functions.name(function)) {
            case "dedupe" -> () -> new Dedupe(store);
            case "tick_stream" -> () -> new Tick(Functions.number(function), PunctuationType.STREAM_TIME);
            case "tick_wall" -> () -> new Tick(Functions.number(function), PunctuationType.WALL_CLOCK_TIME);
            default -> MoreProcessors.supplier(Functions.name(function), Functions.argument(function), store);
        };
    }

    static Processor<Object, Object, Void, Void> keeper(String store) {
        return MoreProcessors.keeper(store);
    }

    /** Forwards a record unless its value, as text, is the last one of its key. */
    private static final class Dedupe implements Processor<Object, Object, Object, Object> {
        private final String storeName;
        private ProcessorContext<Object, Object> context;
        private KeyValueStore<Object, Object> lastValues;

        Dedupe(String storeName) {
            this.storeName = storeName;
        }

        @Override
        public void init(ProcessorContext<Object, Object> context) {
            this.context = context;
            lastValues = context.getStateStore(storeName);
        }

        @Override
        public void process(Record<Object, Object> record) {
            if (record.key() == null) {
                return;
            }
            String value = String.valueOf(record.value());
            if (!value.equals(lastValues.get(record.key()))) {
                lastValues.put(record.key(), value);
                context.forward(record);
            }
        }
    }

    /** Counts records; forwards the time and the count each time its clock has gone on by the interval. */
    private static final class Tick implements Processor<Object, Object, Object, Object> {
        private final long intervalMs;
        private final PunctuationType clock;
        private long seen;

        Tick(long intervalMs, PunctuationType clock) {
            this.intervalMs = intervalMs;
            this.clock = clock;
        }

        @Override
        public void init(ProcessorContext<Object, Object> context) {
            context.schedule(
                    Duration.ofMillis(intervalMs),
                    clock,
                    now -> context.forward(new Record<>("tick", now + ":" + seen, now)));
        }

        @Override
        public void process(Record<Object, Object> record) {
            seen++;
        }
    }
}

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Predicate;
import org.apache.kafka.streams.kstream.Reducer;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueMapper;
import org.apache.kafka.streams.kstream.ValueMapperWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKeySupplier;
import org.apache.kafka.streams.processor.ProcessorContext;

/** The functions that cases name: {@code name} or {@code name:argument}. Values are strings, longs or null. */
final class Functions {
    private final String name;
    private final String argument;

    private Functions(String function) {
        int colon = function.indexOf(':');
        name = colon < 0 ? function : function.substring(0, colon);
        argument = colon < 0 ? "" : function.substring(colon + 1);
    }

    static String name(String function) {
        return new Functions(function).name;
    }

    static String argument(String function) {
        return new Functions(function).argument;
    }

    static long number(String function) {
        return new Functions(function).number();
    }

    private long number() {
        return Long.parseLong(argument);
    }

    private IllegalArgumentException unknown(String kind) {
        return new IllegalArgumentException("unknown " + kind + " " + name);
    }

    static Predicate<Object, Object> predicate(String function) {
        Functions asked = new Functions(function);
        return switch (asked.name) {
            case "not_null" -> (key, value) -> value != null;
            case "len_gt" -> (key, value) -> value != null && value.toString().length() > asked.number();
            case "contains" -> (key, value) -> value != null && value.toString().contains(asked.argument);
            case "even" -> (key, value) -> value != null && (Long) value % 2 == 0;
            case "key_in" -> {
                List<String> keys = Arrays.asList(asked.argument.split(","));
                yield (key, value) -> key != null && keys.contains(key.toString());
            }
            default -> throw asked.unknown("predicate");
        };
    }

    static ValueMapper<Object, Object> mapper(String function) {
        Functions asked = new Functions(function);
        return switch (asked.name) {
            case "identity" -> value -> value;
            case "to_string" -> String::valueOf;
            case "concat" -> value -> value + asked.argument;
            case "upper" -> value -> value == null ? null : value.toString().toUpperCase(Locale.ROOT);
            case "len" -> value -> value == null ? null : (Object) (long) value.toString().length();
            case "add" -> value -> value == null ? null : (Object) ((Long) value + asked.number());
            case "null_if" -> value -> asked.argument.equals(String.valueOf(value)) ? null : value;
            case "null_if_contains" -> value ->
                    value == null || value.toString().contains(asked.argument) ? null : value;
            default -> throw asked.unknown("mapper");
        };
    }

    /** A mapper that is also called for deletions, or {@code with_key}. */
    static ValueTransformerWithKeySupplier<Object, Object, Object> transformer(String function) {
        if (function.equals("with_key")) {
            return () -> new Transformer((key, value) -> key + "=" + value);
        }
        ValueMapper<Object, Object> mapper = mapper(function);
        return () -> new Transformer((key, value) -> mapper.apply(value));
    }

    private static final class Transformer implements ValueTransformerWithKey<Object, Object, Object> {
        private final ValueMapperWithKey<Object, Object, Object> function;

        Transformer(ValueMapperWithKey<Object, Object, Object> function) {
            this.function = function;
        }

        @Override
        public void init(ProcessorContext context) {}

        @Override
        public Object transform(Object key, Object value) {
            return function.apply(key, value);
        }

        @Override
        public void close() {}
    }

    static KeyValueMapper<Object, Object, Object> selector(String function) {
        Functions asked = new Functions(function);
        return switch (asked.name) {
            case "same" -> (key, value) -> key;
            case "const" -> (key, value) -> asked.argument;
            case "value" -> (key, value) -> value == null ? null : value.toString();
            case "first_char" -> (key, value) -> firstOf(value);
            case "key_first" -> (key, value) -> firstOf(key);
            case "key_upper" -> (key, value) -> key == null ? null : key.toString().toUpperCase(Locale.ROOT);
            default -> throw asked.unknown("key selector");
        };
    }

    private static String firstOf(Object text) {
        return text == null || text.toString().isEmpty() ? null : text.toString().substring(0, 1);
    }

    static ValueMapper<Object, Iterable<Object>> flat(String function) {
        Functions asked = new Functions(function);
        return switch (asked.name) {
            case "none" -> value -> List.of();
            case "twice" -> value -> Arrays.asList(value, value);
            case "split" -> value ->
                    value == null ? List.of() : Arrays.asList((Object[]) value.toString().split(" "));
            default -> throw asked.unknown("flat mapper");
        };
    }

    static KeyValueMapper<Object, Object, KeyValue<Object, Object>> pair(String keyFunction, String function) {
        KeyValueMapper<Object, Object, Object> key = selector(keyFunction);
        ValueMapper<Object, Object> value = mapper(function);
        return (k, v) -> KeyValue.pair(key.apply(k, v), value.apply(v));
    }

    /** Each part goes with the key that is made of the record's key and the part. */
    static KeyValueMapper<Object, Object, Iterable<KeyValue<Object, Object>>> pairs(String keyFunction, String flat) {
        KeyValueMapper<Object, Object, Object> key = selector(keyFunction);
        ValueMapper<Object, Iterable<Object>> parts = flat(flat);
        return (k, v) -> {
            List<KeyValue<Object, Object>> made = new ArrayList<>();
            parts.apply(v).forEach(part -> made.add(KeyValue.pair(key.apply(k, part), part)));
            return made;
        };
    }

    static Aggregator<Object, Object, Object> aggregator(String function) {
        Reducer<Object> reducer = reducer(function);
        return (key, value, aggregate) -> reducer.apply(aggregate, value);
    }

    /** From the aggregate so far and the next value to the next aggregate. */
    static Reducer<Object> reducer(String function) {
        Functions asked = new Functions(function);
        return switch (asked.name) {
            case "concat" -> (aggregate, value) -> aggregate + "+" + value;
            case "minus" -> (aggregate, value) -> aggregate + "-" + value;
            case "sum" -> (aggregate, value) -> (Long) aggregate + size(value);
            case "sub" -> (aggregate, value) -> (Long) aggregate - size(value);
            case "max" -> (aggregate, value) -> Math.max((Long) aggregate, (Long) value);
            case "last" -> (aggregate, value) -> value;
            case "drop_on" -> (aggregate, value) ->
                    asked.argument.equals(String.valueOf(value)) ? null : aggregate + "+" + value;
            default -> throw asked.unknown("aggregator");
        };
    }

    private static long size(Object value) {
        return value instanceof Long number ? number : String.valueOf(value).length();
    }

    static Initializer<Object> initial(String function) {
        return switch (function) {
            case "zero" -> () -> 0L;
            case "empty" -> () -> "";
            default -> throw new IllegalArgumentException("unknown initializer " + function);
        };
    }

    static ValueJoiner<Object, Object, Object> joiner() {
        return (left, right) -> "(" + left + "," + right + ")";
    }
}

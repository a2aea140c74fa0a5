import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** The names of the serdes of keys and values, as cases name them. */
record Types(String key, String value) {
    static final Types TEXT = new Types("string", "string");

    Types withKey(String other) {
        return new Types(other, value);
    }

    Types withValue(String other) {
        return new Types(key, other);
    }

    @SuppressWarnings("unchecked") // cases know their types by name only
    static Serde<Object> serde(String name) {
        Serde<?> serde = switch (name) {
            case "string" -> Serdes.String();
            case "long" -> Serdes.Long();
            default -> throw new IllegalArgumentException("unknown serde " + name);
        };
        return (Serde<Object>) serde;
    }

    Serde<Object> keySerde() {
        return serde(key);
    }

    Serde<Object> valueSerde() {
        return serde(value);
    }
}

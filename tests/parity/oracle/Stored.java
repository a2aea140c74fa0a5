import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateStore;

/** How a step's result is kept, in a store of any kind: its fields store, caching, in_memory, logging, retention_ms. */
final class Stored {
    private static final List<String> FIELDS = List.of("store", "caching", "in_memory", "logging");

    private Stored() {}

    /** Whether a step says anything of how its result is kept. */
    static boolean isSaid(JsonNode step) {
        return FIELDS.stream().anyMatch(step::has);
    }

    static <S extends StateStore> Materialized<Object, Object, S> as(JsonNode step, Types types) {
        Materialized<Object, Object, S> how = Materialized.with(types.keySerde(), types.valueSerde());
        if (step.has("store")) {
            how = Materialized.<Object, Object, S>as(Steps.text(step, "store"))
                    .withKeySerde(types.keySerde())
                    .withValueSerde(types.valueSerde());
        }
        if (!step.path("caching").asBoolean(true)) {
            how.withCachingDisabled();
        }
        if (!step.path("logging").asBoolean(true)) {
            how.withLoggingDisabled();
        }
        if (step.has("retention_ms")) {
            how.withRetention(Steps.millis(step, "retention_ms"));
        }
        return step.path("in_memory").asBoolean(false) ? how.withStoreType(Materialized.StoreType.IN_MEMORY) : how;
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateStore;

/** How a step's result is kept, in a store of any kind: its fields store, caching, in_memory and logging. */
final class Stored {
    private Stored() {}

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
        return step.path("in_memory").asBoolean(false) ? how.withStoreType(Materialized.StoreType.IN_MEMORY) : how;
    }
}

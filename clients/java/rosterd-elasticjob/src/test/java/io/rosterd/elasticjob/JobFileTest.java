package io.rosterd.elasticjob;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.apache.shardingsphere.elasticjob.api.JobExtraConfiguration;
import org.junit.jupiter.api.Test;

class JobFileTest {
    private static JsonObject parsed(JobConfiguration config) {
        return JsonParser.parseString(
                        JobFile.of(config, "com.example.Report", Map.of()).text())
                .getAsJsonObject();
    }

    @Test
    void everyFieldHasElasticJobsName() {
        JobConfiguration config = JobConfiguration.newBuilder("report", 2)
                .cron("0 0 2 * * ?")
                .timeZone("GMT+8:00")
                .shardingItemParameters("0=a,1=b")
                .jobParameter("daily")
                .failover(true)
                .maxTimeDiffSeconds(3)
                .reconcileIntervalMinutes(7)
                .jobShardingStrategyType("ODEVITY")
                .jobExecutorServiceHandlerType("SINGLE_THREAD")
                .jobErrorHandlerType("IGNORE")
                .jobListenerTypes("RECORD")
                .description("a report")
                .setProperty("color", "green")
                .disabled(true)
                .overwrite(true)
                .label("blue")
                .build();
        assertEquals(JsonParser.parseString("""
            {"jobName": "report", "cron": "0 0 2 * * ?", "timeZone": "GMT+8:00", "shardingTotalCount": 2,
             "shardingItemParameters": "0=a,1=b", "jobParameter": "daily", "description": "a report",
             "label": "blue", "disabled": true, "overwrite": true, "monitorExecution": true, "failover": true,
             "misfire": true, "maxTimeDiffSeconds": 3, "reconcileIntervalMinutes": 7,
             "jobShardingStrategyType": "ODEVITY", "jobExecutorServiceHandlerType": "SINGLE_THREAD",
             "jobErrorHandlerType": "IGNORE", "jobListenerTypes": ["RECORD"], "props": {"color": "green"},
             "rosterd": {"handler": "com.example.Report"}}
            """), parsed(config));
        JobFile file = JobFile.of(config, "com.example.Report", Map.of());
        assertTrue(file.overwrites());
        assertEquals(List.of(), file.notes());
    }

    @Test
    void aScheduleKeepsTheZoneOfTheJvm() {
        JsonObject file = parsed(
                JobConfiguration.newBuilder("report", 1).cron("0 0 2 * * ?").build());
        assertEquals(TimeZone.getDefault().getID(), file.get("timeZone").getAsString());
    }

    @Test
    void withoutMonitoringThereIsNeitherFailoverNorMisfire() {
        JobConfiguration config = JobConfiguration.newBuilder("report", 1)
                .monitorExecution(false)
                .failover(true)
                .build();
        JsonObject file = parsed(config);
        assertFalse(file.get("failover").getAsBoolean());
        assertFalse(file.get("misfire").getAsBoolean());
        assertEquals(2, JobFile.of(config, "x", Map.of()).notes().size());
    }

    @Test
    void propertiesOfRosterdBecomeItsFields() {
        JobConfiguration config = JobConfiguration.newBuilder("report", 1)
                .setProperty("rosterd.run_timeout_ms", "60000")
                .setProperty("rosterd.retries.max_attempts", "3")
                .setProperty("rosterd.retries.backoff_ms", "500")
                .setProperty("rosterd.guarantee.completed", "true")
                .setProperty("rosterd.strategy", "STICKY")
                .build();
        JsonObject file = parsed(config);
        assertFalse(file.has("props"));
        assertEquals(JsonParser.parseString("""
            {"handler": "com.example.Report", "run_timeout_ms": 60000, "strategy": "STICKY",
             "retries": {"max_attempts": 3, "backoff_ms": 500}, "guarantee": {"completed": true}}
            """), file.get("rosterd"));
    }

    @Test
    void aPropertyBelowAValueIsRefused() {
        JobConfiguration config = JobConfiguration.newBuilder("report", 1)
                .setProperty("rosterd.strategy.name", "STICKY")
                .build();
        Map<String, Object> added = Map.of("strategy", "ODEVITY");
        IllegalArgumentException refused =
                assertThrows(IllegalArgumentException.class, () -> JobFile.of(config, "x", added));
        assertEquals("property rosterd.strategy.name: strategy is a value already", refused.getMessage());
    }

    @Test
    void whatHasNoEffectIsSaid() {
        JobConfiguration config = JobConfiguration.newBuilder("report", 1)
                .staticSharding(true)
                .addExtraConfigurations(new Tracing())
                .build();
        List<String> notes = JobFile.of(config, "x", Map.of()).notes();
        assertEquals(2, notes.size());
        assertTrue(notes.get(0).startsWith("staticSharding has no effect"), notes.get(0));
        assertTrue(notes.get(1).startsWith("Tracing has no effect"), notes.get(1));
    }

    private static final class Tracing implements JobExtraConfiguration {}
}

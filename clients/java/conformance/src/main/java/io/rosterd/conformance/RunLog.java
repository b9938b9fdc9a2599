package io.rosterd.conformance;

import io.rosterd.client.Fire;
import io.rosterd.client.Run;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** What happened, one JSON object a line, as {@code rosterd verify} reads it. Each line is one write. */
final class RunLog {
    private final String worker;
    private final OutputStream out;

    private RunLog(String worker, OutputStream out) {
        this.worker = worker;
        this.out = out;
    }

    static RunLog of(Map<String, String> environment) throws IOException {
        String path = environment.getOrDefault("CONFORMANCE_LOG", "");
        OutputStream out =
                path.isEmpty() ? new FileOutputStream(java.io.FileDescriptor.out) : new FileOutputStream(path, true);
        return new RunLog(environment.getOrDefault("CONFORMANCE_NAME", "java"), out);
    }

    /** Writes a line. Run null: it is about the process. */
    void write(String what, Run run, String detail) {
        Map<String, Object> line = begin(what, detail);
        if (run != null) {
            line.put("job", run.job());
            line.put("item", run.item());
            line.put("token", run.token());
            line.put("fire", run.fireTime().toEpochMilli());
            line.put("source", run.source().name());
            line.put("attempt", run.attempt());
            line.put("instance", run.instanceId());
        }
        write(line);
    }

    void callback(Fire fire, String kind) {
        Map<String, Object> line = begin("callback", kind);
        line.put("job", fire.job());
        line.put("fire", fire.fireTime().toEpochMilli());
        write(line);
    }

    private Map<String, Object> begin(String what, String detail) {
        Map<String, Object> line = new LinkedHashMap<>();
        // On Linux this is CLOCK_MONOTONIC, the same for all processes of the machine.
        line.put("at", System.nanoTime());
        line.put("wall", System.currentTimeMillis());
        line.put("worker", worker);
        line.put("what", what);
        line.put("detail", detail);
        return line;
    }

    private synchronized void write(Map<String, Object> line) {
        String text = line.entrySet().stream()
                .map(field -> quoted(field.getKey()) + ":" + json(field.getValue()))
                .collect(Collectors.joining(",", "{", "}\n"));
        try {
            out.write(text.getBytes(StandardCharsets.UTF_8));
            out.flush();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static String json(Object value) {
        return value instanceof Number ? value.toString() : quoted(value.toString());
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        text.chars().forEach(sign -> {
            if (sign == '"' || sign == '\\') quoted.append('\\').append((char) sign);
            else if (sign < 0x20) quoted.append(String.format("\\u%04x", sign));
            else quoted.append((char) sign);
        });
        return quoted.append('"').toString();
    }
}

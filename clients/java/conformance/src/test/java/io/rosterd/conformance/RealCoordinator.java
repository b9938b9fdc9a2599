package io.rosterd.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;

/** A real coordinator: {@code ROSTERD_BINARY}, else that of this repository's release build. */
final class RealCoordinator implements AutoCloseable {
    static final Path BINARY =
            Path.of(System.getenv().getOrDefault("ROSTERD_BINARY", "../../../target/release/rosterd"));
    private static final Pattern SERVING = Pattern.compile("serving address=(\\S+)");
    private static final long PATIENCE_SECONDS = 20;

    private final Path folder = Files.createTempDirectory("rosterd-real-");
    private final List<String> flags;
    private Process process;
    private String address = "";

    RealCoordinator(String... flags) throws Exception {
        String missing = BINARY + " is not there: `cargo build --release`, or name one by ROSTERD_BINARY";
        assertTrue(Files.exists(BINARY), missing);
        this.flags = List.of(flags);
        start();
    }

    /** Starts it, the first time on any free port, then on the same. */
    void start() throws Exception {
        List<String> command = new ArrayList<>(List.of(
                BINARY.toString(),
                "serve",
                "--data-dir",
                folder.resolve("data").toString(),
                "--listen",
                address.isEmpty() ? "127.0.0.1:0" : address));
        command.addAll(flags);
        Path log = Files.createTempFile(folder, "coordinator", ".log");
        process = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(log.toFile())
                .start();
        until("the coordinator serves", () -> {
            Matcher serving = SERVING.matcher(Files.readString(log).replaceAll("\u001b\\[[0-9;]*m", ""));
            if (serving.find()) address = serving.group(1);
            assertTrue(process.isAlive(), () -> text(log));
            return !address.isEmpty() && serving.reset().find();
        });
    }

    private static String text(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException error) {
            return error.toString();
        }
    }

    String address() {
        return address;
    }

    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    @Override
    public void close() throws Exception {
        kill();
        try (Stream<Path> paths = Files.walk(folder)) {
            for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) Files.deleteIfExists(path);
        }
    }

    /** The output of {@code rosterd …}. */
    String ask(String... words) throws Exception {
        List<String> command = new ArrayList<>(List.of(BINARY.toString()));
        command.addAll(List.of(words));
        command.addAll(List.of("--server", address));
        Path errors = Files.createTempFile(folder, "errors", ".txt");
        Process asked =
                new ProcessBuilder(command).redirectError(errors.toFile()).start();
        String output = new String(asked.getInputStream().readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
        assertEquals(0, asked.waitFor(), () -> List.of(words) + ": " + text(errors));
        return output;
    }

    void apply(String jobFile) throws Exception {
        Path file = Files.createTempFile(folder, "job", ".yaml");
        Files.writeString(file, jobFile);
        ask("jobs", "apply", "--file", file.toString());
    }

    /** Latest first. */
    List<Map<String, Object>> runs(String job) throws Exception {
        return parsed(ask("runs", "--job", job, "--json"));
    }

    /** A run of the job that has ended. */
    Map<String, Object> ended(String job) throws Exception {
        List<Map<String, Object>> found = new ArrayList<>();
        until("a run of " + job + " has ended", () -> {
            runs(job).stream()
                    .filter(run -> run.get("outcome") != null)
                    .findFirst()
                    .ifPresent(found::add);
            return !found.isEmpty();
        });
        return found.get(0);
    }

    /** JSON is YAML. */
    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> parsed(String json) {
        return (List<Map<String, Object>>) new Yaml(new SafeConstructor(new LoaderOptions())).load(json);
    }

    /** Waits for a state. */
    static void until(String what, Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        while (!condition.call()) {
            if (System.nanoTime() > end) throw new AssertionError(what + ": the state does not come");
            Thread.sleep(20);
        }
    }
}

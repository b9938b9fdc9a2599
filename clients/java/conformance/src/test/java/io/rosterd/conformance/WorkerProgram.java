package io.rosterd.conformance;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** The conformance worker, in a process of its own. */
final class WorkerProgram implements AutoCloseable {
    final Process process;
    private final Path output;
    private final Path errors;

    WorkerProgram(String server, String job, Map<String, String> environment) throws IOException {
        this(server, job, environment, ConformanceWorker.class.getName());
    }

    /** A program other than the conformance worker, with its arguments. */
    WorkerProgram(String server, String job, Map<String, String> environment, String... program) throws IOException {
        output = Files.createTempFile("rosterd-worker-", ".runs");
        errors = Files.createTempFile("rosterd-worker-", ".log");
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-cp",
                System.getProperty("java.class.path")));
        command.addAll(List.of(program));
        ProcessBuilder builder =
                new ProcessBuilder(command).redirectOutput(output.toFile()).redirectError(errors.toFile());
        builder.environment().keySet().removeIf(name -> name.startsWith("ROSTERD_"));
        builder.environment().putAll(Map.of("ROSTERD_SERVER", server, "CONFORMANCE_JOBS", job));
        builder.environment().putAll(environment);
        process = builder.start();
    }

    WorkerProgram registered(String job) throws Exception {
        RealCoordinator.until("the worker is registered for " + job, () -> errors().contains("job " + job + ": "));
        return this;
    }

    String errors() throws IOException {
        return Files.readString(errors);
    }

    String output() throws IOException {
        return Files.readString(output);
    }

    void started() throws Exception {
        RealCoordinator.until("a run has begun", () -> output().contains("\"what\":\"start\""));
    }

    /** Sends a signal by its number. */
    void signal(int number) throws Exception {
        new ProcessBuilder("kill", "-" + number, "" + process.pid()).start().waitFor();
    }

    int exit() throws Exception {
        if (!process.waitFor(30, TimeUnit.SECONDS)) throw new AssertionError("the worker does not end: " + errors());
        return process.exitValue();
    }

    @Override
    public void close() throws Exception {
        process.destroyForcibly().waitFor();
        Files.deleteIfExists(output);
        Files.deleteIfExists(errors);
    }
}

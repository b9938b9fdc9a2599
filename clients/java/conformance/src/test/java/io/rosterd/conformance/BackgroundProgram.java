package io.rosterd.conformance;

import io.rosterd.client.JobConfig;
import io.rosterd.client.JobOptions;
import io.rosterd.client.Worker;

/** A program that has a worker in the background, as an application server does. Its argument: {@code wait} or {@code exit}. */
final class BackgroundProgram {
    private BackgroundProgram() {}

    public static void main(String[] arguments) throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.err.println("the hook of the program")));
        Worker worker = Worker.builder().address("10.0.0.1").build();
        JobOptions options = JobOptions.builder()
                .config(JobConfig.builder().items(1).build())
                .build();
        worker.job("background-" + arguments[0], run -> null, options).start();
        if (arguments[0].equals("wait")) return;
        RealCoordinator.until("the worker is ready", worker::isReady);
        System.exit(3);
    }
}

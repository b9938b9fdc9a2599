package io.rosterd.examples;

import io.rosterd.client.Worker;

class Hello {
    public static void main(String[] arguments) throws InterruptedException {
        Worker worker = Worker.builder().server("localhost:7700").build();
        worker.job("hello", run -> "item " + run.item() + " of " + run.total() + ", token " + run.token());
        worker.run();
    }
}

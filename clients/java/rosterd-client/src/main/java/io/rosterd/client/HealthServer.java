package io.rosterd.client;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.BooleanSupplier;

/** Health for Kubernetes, on a thread of its own. Loaded only if it is asked for. */
final class HealthServer implements AutoCloseable {
    private static final int BACKLOG = 16;

    private final HttpServer server;
    private final ExecutorService executor;

    HealthServer(InetSocketAddress address, BooleanSupplier alive, BooleanSupplier ready) {
        try {
            server = HttpServer.create(address, BACKLOG);
        } catch (IOException error) {
            throw new RosterdException("health cannot be served at " + address + ": " + error.getMessage(), error);
        }
        executor = Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task, "rosterd-health");
            thread.setDaemon(true);
            return thread;
        });
        server.setExecutor(executor);
        serve("/", () -> false, 404);
        serve("/healthz", alive, 503);
        serve("/readyz", ready, 503);
        server.start();
    }

    int port() {
        return server.getAddress().getPort();
    }

    private void serve(String path, BooleanSupplier fine, int otherwise) {
        server.createContext(path, exchange -> {
            boolean exact = exchange.getRequestURI().getPath().equals(path);
            answer(exchange, exact && fine.getAsBoolean() ? 200 : exact ? otherwise : 404);
        });
    }

    private static void answer(HttpExchange exchange, int status) throws IOException {
        String text = status == 200 ? "ok\n" : status == 404 ? "not found\n" : "not ready\n";
        byte[] body = text.getBytes(StandardCharsets.US_ASCII);
        try (exchange) {
            exchange.getResponseHeaders().set("Content-Type", "text/plain");
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
        }
    }

    @Override
    public void close() {
        server.stop(0);
        executor.shutdownNow();
    }
}

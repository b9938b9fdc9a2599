package io.rosterd.client;

import io.rosterd.client.internal.transport.Pem;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Executor;

/**
 * Makes {@link Worker}s. What is not set here comes from the environment: {@code ROSTERD_SERVER}, {@code ROSTERD_CREDENTIAL},
 * {@code ROSTERD_CA}, {@code ROSTERD_CERT}, {@code ROSTERD_KEY} and {@code ROSTERD_INSECURE_CREDENTIAL}.
 */
public final class WorkerBuilder {
    final List<String> servers = new ArrayList<>();
    final Map<String, String> labels = new LinkedHashMap<>();
    String credential;
    Boolean insecureCredential;
    Pem rootCertificates = Pem.NONE;
    Pem clientCertificate = Pem.NONE;
    Pem clientKey = Pem.NONE;
    String namespace = "";
    String address = "";
    int slots = Math.max(4, 2 * Runtime.getRuntime().availableProcessors());
    Duration drainTimeout = Duration.ofSeconds(30);
    Duration leaveTimeout = Duration.ofSeconds(10);
    Duration connectTimeout = Duration.ofSeconds(3);
    Duration longestDelay = Duration.ofSeconds(10);
    WorkerListener listener = new WorkerListener() {};
    InetSocketAddress health;
    boolean handlesSignals = true;
    boolean virtualThreads = true;
    Executor executor;
    Map<String, String> environment = System.getenv();

    WorkerBuilder() {}

    /**
     * Adds coordinators. Default: {@code ROSTERD_SERVER}, else {@code localhost:7700}.
     *
     * @param server {@code host:port}, {@code http://host:port} or {@code https://host:port}; several separated by commas
     * @return this
     */
    public WorkerBuilder server(String server) {
        servers.add(Objects.requireNonNull(server, "server"));
        return this;
    }

    /**
     * Sets the credential, sent as {@code authorization: Bearer …}. Default: {@code ROSTERD_CREDENTIAL}.
     *
     * @param credential the secret
     * @return this
     */
    public WorkerBuilder credential(String credential) {
        this.credential = credential;
        return this;
    }

    /**
     * Whether the credential may go to another machine in plain text. Default: {@code ROSTERD_INSECURE_CREDENTIAL}, else false.
     *
     * @param insecureCredential true: the network is trusted
     * @return this
     */
    public WorkerBuilder insecureCredential(boolean insecureCredential) {
        this.insecureCredential = insecureCredential;
        return this;
    }

    /**
     * Sets the authorities for coordinators at {@code https://} addresses. Default: the file that {@code ROSTERD_CA}
     * names, else the authorities that this Java trusts.
     *
     * @param file PEM, read again for each connection
     * @return this
     */
    public WorkerBuilder rootCertificates(Path file) {
        rootCertificates = Pem.of(file);
        return this;
    }

    /**
     * Sets the authorities for coordinators at {@code https://} addresses.
     *
     * @param pem PEM
     * @return this
     */
    public WorkerBuilder rootCertificates(byte[] pem) {
        rootCertificates = Pem.of(pem);
        return this;
    }

    /**
     * Sets the worker's own certificate, for coordinators that ask for one. Default: the files that {@code ROSTERD_CERT} and
     * {@code ROSTERD_KEY} name.
     *
     * @param certificate PEM, read again for each connection
     * @param key PEM (PKCS #8), read again for each connection
     * @return this
     */
    public WorkerBuilder clientCertificate(Path certificate, Path key) {
        clientCertificate = Pem.of(certificate);
        clientKey = Pem.of(key);
        return this;
    }

    /**
     * Sets the worker's own certificate, for coordinators that ask for one.
     *
     * @param certificate PEM
     * @param key PEM (PKCS #8)
     * @return this
     */
    public WorkerBuilder clientCertificate(byte[] certificate, byte[] key) {
        clientCertificate = Pem.of(certificate);
        clientKey = Pem.of(key);
        return this;
    }

    /**
     * Sets the namespace that this worker expects. Default: whichever the coordinator serves.
     *
     * @param namespace its name
     * @return this
     */
    public WorkerBuilder namespace(String namespace) {
        this.namespace = Objects.requireNonNull(namespace, "namespace");
        return this;
    }

    /**
     * Sets how operators know this machine: a label. Default: the address that faces the coordinator.
     *
     * @param address an address or a name
     * @return this
     */
    public WorkerBuilder address(String address) {
        this.address = Objects.requireNonNull(address, "address");
        return this;
    }

    /**
     * Adds a free label, for people.
     *
     * @param name at most 128 bytes
     * @param value at most 128 bytes
     * @return this
     */
    public WorkerBuilder label(String name, String value) {
        labels.put(name, value);
        return this;
    }

    /**
     * Sets how many runs may be in flight at a time, over all jobs. Default: twice the processors, at least 4.
     *
     * @param slots 1 to 4096
     * @return this
     */
    public WorkerBuilder slots(int slots) {
        this.slots = slots;
        return this;
    }

    /**
     * Sets how long runs may still take when the worker leaves; then they are cancelled and handed back. Default: 30 s.
     *
     * @param drainTimeout not negative
     * @return this
     */
    public WorkerBuilder drainTimeout(Duration drainTimeout) {
        this.drainTimeout = drainTimeout;
        return this;
    }

    /**
     * Sets how long the goodbye may take, over all coordinators, once the runs have ended. Default: 10 s.
     *
     * @param leaveTimeout not negative
     * @return this
     */
    public WorkerBuilder leaveTimeout(Duration leaveTimeout) {
        this.leaveTimeout = leaveTimeout;
        return this;
    }

    /**
     * Sets how long connecting may take. Default: 3 s.
     *
     * @param connectTimeout not negative
     * @return this
     */
    public WorkerBuilder connectTimeout(Duration connectTimeout) {
        this.connectTimeout = connectTimeout;
        return this;
    }

    /**
     * Sets the longest pause between two attempts to connect. Default: 10 s.
     *
     * @param longestDelay not negative
     * @return this
     */
    public WorkerBuilder longestDelay(Duration longestDelay) {
        this.longestDelay = longestDelay;
        return this;
    }

    /**
     * Sets the listener, for metrics.
     *
     * @param listener the listener
     * @return this
     */
    public WorkerBuilder listener(WorkerListener listener) {
        this.listener = Objects.requireNonNull(listener, "listener");
        return this;
    }

    /**
     * Serves {@code /healthz} (the worker has not ended) and {@code /readyz} (it is attached, and not leaving) over
     * HTTP, on all addresses. Default: off. Needs the module {@code jdk.httpserver}.
     *
     * @param port 0: any that is free, see {@link Worker#healthPort()}
     * @return this
     */
    public WorkerBuilder health(int port) {
        if (port < 0 || port > 65_535) {
            throw new InvalidOptionException("health: the port must be 0 to 65535, not " + port);
        }
        return health(new InetSocketAddress(port));
    }

    /**
     * Serves health over HTTP on one address.
     *
     * @param address where
     * @return this
     */
    public WorkerBuilder health(InetSocketAddress address) {
        this.health = address;
        return this;
    }

    /**
     * Whether SIGTERM and SIGINT make the worker leave in order. A second signal ends the process at once; one within a
     * second of the first counts as the first. After {@link Worker#start()}, once the worker has left, the signal goes
     * to its previous handler, so the JVM shuts down as usual. Default: true. False: they belong to the program.
     *
     * @param handlesSignals whether the worker handles them
     * @return this
     */
    public WorkerBuilder handlesSignals(boolean handlesSignals) {
        this.handlesSignals = handlesSignals;
        return this;
    }

    /**
     * Whether handlers run on virtual threads if the JVM has them (21 and newer). Turn this off for handlers that
     * compute for long, or hold monitors while they wait. Default: true.
     *
     * @param virtualThreads false: each run has a platform thread
     * @return this
     */
    public WorkerBuilder virtualThreads(boolean virtualThreads) {
        this.virtualThreads = virtualThreads;
        return this;
    }

    /**
     * Sets where handlers and callbacks of fires run. It must run twice {@link #slots} tasks at a time: a run that waits for a
     * thread begins late. The worker does not shut it down.
     *
     * @param executor default: a thread for each
     * @return this
     */
    public WorkerBuilder executor(Executor executor) {
        this.executor = executor;
        return this;
    }

    /** For tests: replaces the environment. */
    WorkerBuilder environment(Map<String, String> environment) {
        this.environment = environment;
        return this;
    }

    /**
     * Makes the worker. Nothing is connected yet.
     *
     * @return the worker
     * @throws InvalidOptionException if something that was set is not valid; its message lists all defects
     */
    public Worker build() {
        return new Worker(Options.of(this));
    }
}

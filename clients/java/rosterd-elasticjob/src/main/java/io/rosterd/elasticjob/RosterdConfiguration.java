package io.rosterd.elasticjob;

import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/**
 * Where the coordinators are and how this process works for them: replaces Elastic-Job's {@code ZookeeperConfiguration}.
 *
 * <p>What is not set comes from the environment ({@code ROSTERD_SERVER}, {@code ROSTERD_CREDENTIAL}, {@code ROSTERD_CA},
 * {@code ROSTERD_CERT}, {@code ROSTERD_KEY}), else from the client's defaults.
 */
public final class RosterdConfiguration {
    /** The most runs in flight: Elastic-Job has no bound over all jobs. */
    private static final int DEFAULT_SLOTS = 1024;

    private static final long DEFAULT_GATHER_MILLISECONDS = 250;

    private final String serverLists;
    private final String namespace;
    private final Map<String, String> labels = new LinkedHashMap<>();
    private String credential;
    private String operatorCredential;
    private boolean insecureCredential;
    private Path rootCertificates;
    private Path clientCertificate;
    private Path clientKey;
    private String address;
    private int slots = DEFAULT_SLOTS;
    private long drainTimeoutMilliseconds = 30_000;
    private long leaveTimeoutMilliseconds = 10_000;
    private long gatherMilliseconds = DEFAULT_GATHER_MILLISECONDS;
    private boolean handlesSignals = true;

    /** From the environment. */
    public RosterdConfiguration() {
        this(null, null);
    }

    /**
     * Any namespace.
     *
     * @param serverLists coordinators: {@code host:port} or {@code https://host:port}, separated by commas
     */
    public RosterdConfiguration(String serverLists) {
        this(serverLists, null);
    }

    /**
     * One namespace.
     *
     * @param serverLists coordinators: {@code host:port} or {@code https://host:port}, separated by commas
     * @param namespace which namespace they must serve; null: any
     */
    public RosterdConfiguration(String serverLists, String namespace) {
        this.serverLists = serverLists;
        this.namespace = namespace;
    }

    /** {@return the coordinators; null if they come from the environment} */
    public String getServerLists() {
        return serverLists;
    }

    /** {@return the expected namespace; null: any} */
    public String getNamespace() {
        return namespace;
    }

    /** {@return the secret; null if it comes from the environment} */
    public String getCredential() {
        return credential;
    }

    /**
     * Sets the credential: replaces ZooKeeper's digest.
     *
     * @param credential the secret
     */
    public void setCredential(String credential) {
        this.credential = credential;
    }

    /** {@return the secret for {@link OneOffJobBootstrap#execute()}; null if it is the same} */
    public String getOperatorCredential() {
        return operatorCredential;
    }

    /**
     * Sets the credential for {@link OneOffJobBootstrap#execute()}: with credentials, a worker's may not trigger. Default: the
     * same as for everything else.
     *
     * @param operatorCredential a secret of role operator
     */
    public void setOperatorCredential(String operatorCredential) {
        this.operatorCredential = operatorCredential;
    }

    /** {@return whether the credential may go to another machine in plain text} */
    public boolean isInsecureCredential() {
        return insecureCredential;
    }

    /**
     * Whether the credential may go to another machine in plain text. Default: false.
     *
     * @param insecureCredential true: the network is trusted
     */
    public void setInsecureCredential(boolean insecureCredential) {
        this.insecureCredential = insecureCredential;
    }

    /** {@return the authorities for coordinators, a PEM file; null if not set} */
    public Path getRootCertificates() {
        return rootCertificates;
    }

    /**
     * Sets the authorities for coordinators at {@code https://} addresses.
     *
     * @param rootCertificates a PEM file
     */
    public void setRootCertificates(Path rootCertificates) {
        this.rootCertificates = rootCertificates;
    }

    /** {@return this process's own certificate, a PEM file; null if not set} */
    public Path getClientCertificate() {
        return clientCertificate;
    }

    /** {@return the key of the certificate, a PEM file; null if not set} */
    public Path getClientKey() {
        return clientKey;
    }

    /**
     * Sets this process's own certificate.
     *
     * @param certificate a PEM file
     * @param key a PEM file (PKCS #8)
     */
    public void setClientCertificate(Path certificate, Path key) {
        this.clientCertificate = Objects.requireNonNull(certificate, "certificate");
        this.clientKey = Objects.requireNonNull(key, "key");
    }

    /** {@return how operators know this machine; null if the address that faces the coordinator} */
    public String getAddress() {
        return address;
    }

    /**
     * Sets how operators know this machine. Default: the address that faces the coordinator, as Elastic-Job's server.
     *
     * @param address an address or a name
     */
    public void setAddress(String address) {
        this.address = address;
    }

    /** {@return labels of this process, for people; may be changed} */
    public Map<String, String> getLabels() {
        return labels;
    }

    /** {@return how many runs may be in flight over all jobs} */
    public int getSlots() {
        return slots;
    }

    /**
     * Sets how many runs may be in flight over all jobs; it should be at least the number of items that this process may own. A
     * job's thread pool limits how many of its items run at a time, as in Elastic-Job. Default: 1024.
     *
     * @param slots 1 to 4096
     */
    public void setSlots(int slots) {
        this.slots = slots;
    }

    /** {@return how long runs may still take when this process leaves} */
    public long getDrainTimeoutMilliseconds() {
        return drainTimeoutMilliseconds;
    }

    /**
     * Sets how long runs may still take when this process leaves; then they are interrupted and handed back. Default: 30 s.
     *
     * @param drainTimeoutMilliseconds not negative
     */
    public void setDrainTimeoutMilliseconds(long drainTimeoutMilliseconds) {
        this.drainTimeoutMilliseconds = drainTimeoutMilliseconds;
    }

    /** {@return how long the goodbye may take once the runs have ended} */
    public long getLeaveTimeoutMilliseconds() {
        return leaveTimeoutMilliseconds;
    }

    /**
     * Sets how long the goodbye may take once the runs have ended, if no coordinator answers. Default: 10 s.
     *
     * @param leaveTimeoutMilliseconds not negative
     */
    public void setLeaveTimeoutMilliseconds(long leaveTimeoutMilliseconds) {
        this.leaveTimeoutMilliseconds = leaveTimeoutMilliseconds;
    }

    /** {@return how long the listeners of a fire wait for its items} */
    public long getGatherMilliseconds() {
        return gatherMilliseconds;
    }

    /**
     * Sets how long a fire of a job with listeners waits for those items of this process that have not been triggered yet.
     * Usually all come within a few milliseconds, and the wait ends then. Default: 250.
     *
     * @param gatherMilliseconds not negative
     */
    public void setGatherMilliseconds(long gatherMilliseconds) {
        this.gatherMilliseconds = gatherMilliseconds;
    }

    /** {@return whether SIGTERM and SIGINT make this process leave in order} */
    public boolean isHandlesSignals() {
        return handlesSignals;
    }

    /**
     * Whether SIGTERM and SIGINT make this process leave in order. Default: true. False: the program closes the registry center.
     *
     * @param handlesSignals whether they do
     */
    public void setHandlesSignals(boolean handlesSignals) {
        this.handlesSignals = handlesSignals;
    }
}

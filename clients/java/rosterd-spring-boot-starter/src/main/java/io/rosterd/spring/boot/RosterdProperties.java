package io.rosterd.spring.boot;

import io.rosterd.elasticjob.RosterdConfiguration;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import org.springframework.boot.context.properties.ConfigurationProperties;

/** Where the coordinators are, and how this application works for them. */
@ConfigurationProperties(prefix = "rosterd")
public class RosterdProperties {
    /** Whether the application works for jobs at all. */
    private boolean enabled = true;

    /** Coordinators: host:port or https://host:port, separated by commas. */
    private String server = "localhost:7700";

    /** The expected namespace; any if not set. */
    private String namespace;

    /** The credential of a worker. */
    private String credential;

    /** The credential of an operator, for OneOffJobBootstrap.execute(); the worker's if not set. */
    private String operatorCredential;

    /** Whether credentials may go to another machine in plain text. */
    private boolean insecureCredential;

    /** A PEM file: the authorities for coordinators. */
    private Path ca;

    /** A PEM file: the application's own certificate. */
    private Path cert;

    /** A PEM file: the key of the certificate. */
    private Path key;

    /** How operators know this machine; the address that faces the coordinator if not set. */
    private String address;

    /** Labels of this process, for people. */
    private Map<String, String> labels = new LinkedHashMap<>();

    /** How many runs may be in flight over all jobs: at least the number of items that this process may own. */
    private int slots = 1024;

    /** How long runs may still take when the application stops; then they are interrupted and handed back. */
    private Duration drainTimeout = Duration.ofSeconds(25);

    /**
     * How long the goodbye may take after that, if no coordinator answers. Both together should be less than
     * spring.lifecycle.timeout-per-shutdown-phase.
     */
    private Duration leaveTimeout = Duration.ofSeconds(4);

    /** How long a fire of a job with listeners waits for items of this process that have not been triggered yet. */
    private Duration gather = Duration.ofMillis(250);

    public boolean isEnabled() {
        return enabled;
    }

    public void setEnabled(boolean enabled) {
        this.enabled = enabled;
    }

    public String getServer() {
        return server;
    }

    public void setServer(String server) {
        this.server = server;
    }

    public String getNamespace() {
        return namespace;
    }

    public void setNamespace(String namespace) {
        this.namespace = namespace;
    }

    public String getCredential() {
        return credential;
    }

    public void setCredential(String credential) {
        this.credential = credential;
    }

    public String getOperatorCredential() {
        return operatorCredential;
    }

    public void setOperatorCredential(String operatorCredential) {
        this.operatorCredential = operatorCredential;
    }

    public boolean isInsecureCredential() {
        return insecureCredential;
    }

    public void setInsecureCredential(boolean insecureCredential) {
        this.insecureCredential = insecureCredential;
    }

    public Path getCa() {
        return ca;
    }

    public void setCa(Path ca) {
        this.ca = ca;
    }

    public Path getCert() {
        return cert;
    }

    public void setCert(Path cert) {
        this.cert = cert;
    }

    public Path getKey() {
        return key;
    }

    public void setKey(Path key) {
        this.key = key;
    }

    public String getAddress() {
        return address;
    }

    public void setAddress(String address) {
        this.address = address;
    }

    public Map<String, String> getLabels() {
        return labels;
    }

    public void setLabels(Map<String, String> labels) {
        this.labels = labels;
    }

    public int getSlots() {
        return slots;
    }

    public void setSlots(int slots) {
        this.slots = slots;
    }

    public Duration getDrainTimeout() {
        return drainTimeout;
    }

    public void setDrainTimeout(Duration drainTimeout) {
        this.drainTimeout = drainTimeout;
    }

    public Duration getLeaveTimeout() {
        return leaveTimeout;
    }

    public void setLeaveTimeout(Duration leaveTimeout) {
        this.leaveTimeout = leaveTimeout;
    }

    public Duration getGather() {
        return gather;
    }

    public void setGather(Duration gather) {
        this.gather = gather;
    }

    /** The configuration from these properties. The application context stops the worker, which leaves signals alone. */
    RosterdConfiguration toConfiguration() {
        RosterdConfiguration configuration = new RosterdConfiguration(server, namespace);
        configuration.setCredential(credential);
        configuration.setOperatorCredential(operatorCredential);
        configuration.setInsecureCredential(insecureCredential);
        configuration.setRootCertificates(ca);
        if (cert != null || key != null) {
            if (cert == null || key == null) {
                throw new IllegalArgumentException("rosterd.cert and rosterd.key: set both or none");
            }
            configuration.setClientCertificate(cert, key);
        }
        configuration.setAddress(address);
        configuration.getLabels().putAll(labels);
        configuration.setSlots(slots);
        configuration.setDrainTimeoutMilliseconds(drainTimeout.toMillis());
        configuration.setLeaveTimeoutMilliseconds(leaveTimeout.toMillis());
        configuration.setGatherMilliseconds(gather.toMillis());
        configuration.setHandlesSignals(false);
        return configuration;
    }
}

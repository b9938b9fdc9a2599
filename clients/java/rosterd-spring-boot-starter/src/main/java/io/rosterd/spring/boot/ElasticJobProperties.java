package io.rosterd.spring.boot;

import java.util.LinkedHashMap;
import java.util.Map;
import org.springframework.boot.context.properties.ConfigurationProperties;

/** The properties about jobs that Elastic-Job's starter reads below {@code elasticjob}. */
@ConfigurationProperties(prefix = "elasticjob")
public class ElasticJobProperties {
    /** Whether the jobs are run at all. */
    private boolean enabled = true;

    /** Jobs by name. */
    private Map<String, ElasticJobConfigurationProperties> jobs = new LinkedHashMap<>();

    public boolean isEnabled() {
        return enabled;
    }

    public void setEnabled(boolean enabled) {
        this.enabled = enabled;
    }

    public Map<String, ElasticJobConfigurationProperties> getJobs() {
        return jobs;
    }

    public void setJobs(Map<String, ElasticJobConfigurationProperties> jobs) {
        this.jobs = jobs;
    }
}

package io.rosterd.elasticjob.it;

import java.util.Properties;
import org.apache.shardingsphere.elasticjob.error.handler.JobErrorHandler;

/** Writes errors down. */
public class JournalErrorHandler implements JobErrorHandler {
    private String prefix;

    @Override
    public void init(Properties props) {
        prefix = props.getProperty("journal.prefix", "");
    }

    @Override
    public void handleException(String jobName, Throwable cause) {
        Journal.write("error " + prefix + jobName + " " + cause);
    }

    @Override
    public String getType() {
        return "JOURNAL";
    }
}

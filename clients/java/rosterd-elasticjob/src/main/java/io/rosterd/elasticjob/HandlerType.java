package io.rosterd.elasticjob;

import org.apache.shardingsphere.elasticjob.api.ElasticJob;

/**
 * The handler type of a job: the name of its class, as Elastic-Job writes it into the job's node. Jobs that were migrated from
 * Elastic-Job carry it, and a coordinator refuses workers that name another one.
 */
final class HandlerType {

    private static final String LAMBDA = "$$Lambda";

    private HandlerType() {}

    static String of(ElasticJob job) {
        Class<?> type = job.getClass();
        if (type.isHidden() || type.isSynthetic()) {
            String name = type.getName();
            int at = name.indexOf(LAMBDA);
            // Like Elastic-Job, cut off what differs from one start to the next.
            return at < 0 ? name : name.substring(0, at + LAMBDA.length()) + "$";
        }
        // A class that was generated for one of a program (a proxy by CGLIB) extends it.
        while (type.getName().contains("$$") && type.getSuperclass() != Object.class) {
            type = type.getSuperclass();
        }
        return type.getName();
    }
}

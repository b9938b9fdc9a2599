package io.rosterd.elasticjob;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.simple.job.SimpleJob;
import org.junit.jupiter.api.Test;

class HandlerTypeTest {
    private static class Report implements SimpleJob {
        @Override
        public void execute(ShardingContext context) {}
    }

    /** Named like a class that CGLIB generates. */
    private static final class Report$$SpringCGLIB$$0 extends Report {}

    @Test
    void itIsTheClass() {
        assertEquals("io.rosterd.elasticjob.HandlerTypeTest$Report", HandlerType.of(new Report()));
    }

    @Test
    void itIsTheClassBehindOneThatWasGenerated() {
        assertEquals("io.rosterd.elasticjob.HandlerTypeTest$Report", HandlerType.of(new Report$$SpringCGLIB$$0()));
    }

    @Test
    void ofALambdaItIsTheSameFromOneStartToTheNext() {
        SimpleJob job = context -> {};
        assertEquals("io.rosterd.elasticjob.HandlerTypeTest$$Lambda$", HandlerType.of(job));
    }
}

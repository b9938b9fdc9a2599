package io.rosterd.spring.boot;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.context.annotation.Import;
import org.springframework.core.annotation.AliasFor;

/**
 * Runs the jobs in some packages whose classes are annotated with {@code @ElasticJobConfiguration}: replaces Elastic-Job's
 * annotation of this name.
 */
@Documented
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Import(ElasticJobScanRegistrar.class)
public @interface ElasticJobScan {
    /** {@return the packages to scan, with all below; none: that of the annotated class} */
    @AliasFor("basePackages")
    String[] value() default {};

    /** {@return the packages to scan, with all below; none: that of the annotated class} */
    @AliasFor("value")
    String[] basePackages() default {};
}

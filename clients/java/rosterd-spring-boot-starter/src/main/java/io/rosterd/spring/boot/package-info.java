/**
 * Runs Elastic-Job jobs of a Spring Boot application on rosterd: reads the configuration below {@code elasticjob} like
 * Elastic-Job's starter; {@code rosterd.server} names the coordinators.
 */
package io.rosterd.spring.boot;

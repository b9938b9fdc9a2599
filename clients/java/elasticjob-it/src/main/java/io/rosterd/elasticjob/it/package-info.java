/** Jobs as a team has them: they know Elastic-Job and nothing else, and write down what they see. */
package io.rosterd.elasticjob.it;

{{- define "rosterd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "rosterd.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "rosterd.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "rosterd.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "rosterd.selector" -}}
app.kubernetes.io/name: {{ include "rosterd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: coordinator
{{- end -}}

{{- define "rosterd.labels" -}}
{{ include "rosterd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "rosterd.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- define "rosterd.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "rosterd.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "rosterd.scheme" -}}
{{- if .Values.tls.existingSecret }}https{{ else }}http{{ end -}}
{{- end -}}

{{/* Fails early for what a coordinator would refuse at its start. */}}
{{- define "rosterd.check" -}}
{{- $v := .Values -}}
{{- $zk := $v.registry.zookeeper -}}
{{- if and (eq $v.registry.kind "embedded") (gt (int $v.replicas) 1) -}}
{{- fail "replicas: several coordinators need registry.kind zookeeper; with the embedded store there is one" -}}
{{- end -}}
{{- if and (eq $v.registry.kind "embedded") (not $v.persistence.enabled) -}}
{{- fail "persistence.enabled: without a volume the embedded store, and every job with it, is lost with the pod" -}}
{{- end -}}
{{- if not $v.insecureListen -}}
{{- if not $v.credentials.existingSecret -}}
{{- fail "credentials.existingSecret: everybody who reaches it could run and remove jobs; name a Secret with credentials.toml, or set insecureListen if the network itself is trusted" -}}
{{- end -}}
{{- if not $v.tls.existingSecret -}}
{{- fail "tls.existingSecret: credentials and jobs could be read on their way; name a Secret of type kubernetes.io/tls, or set insecureListen if a mesh speaks TLS or the network itself is trusted" -}}
{{- end -}}
{{- end -}}
{{- if eq $v.registry.kind "zookeeper" -}}
{{- if not $zk.servers -}}
{{- fail "registry.zookeeper.servers: host:port of the ensemble's servers, separated by commas" -}}
{{- end -}}
{{- if and $zk.auth (not (and $zk.user $zk.passwordSecret.name)) -}}
{{- fail "registry.zookeeper.auth: it needs user and passwordSecret.name" -}}
{{- end -}}
{{- if and $zk.tlsClientCertificate (not $zk.tlsSecret) -}}
{{- fail "registry.zookeeper.tlsClientCertificate: it needs tlsSecret, with tls.crt and tls.key" -}}
{{- end -}}
{{- if not (or $zk.auth $zk.tlsClientCertificate $zk.insecure) -}}
{{- fail "registry.zookeeper: everybody who reaches the ensemble could change jobs; set auth, or tlsClientCertificate, or insecure if the network itself is trusted" -}}
{{- end -}}
{{- end -}}
{{- end -}}

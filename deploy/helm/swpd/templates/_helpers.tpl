{{/* Names of Services add up to 8 characters, and of Pods 2: 52 leaves room in 63. */}}
{{- define "swpd.fullname" -}}
{{- $full := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "swpd.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "swpd.labels" -}}
{{ include "swpd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The Secret with the certificate of the endpoint, or nothing with SPIFFE. */}}
{{- define "swpd.identitySecret" -}}
{{- with .Values.identity -}}
{{- if not (or .secret .certManager .spiffe) -}}
{{- fail "identity: missing; name a Secret with tls.crt, tls.key and ca.crt in identity.secret, an issuer in identity.certManager, or a socket in identity.spiffe" -}}
{{- else if or (and .secret .certManager) (and .secret .spiffe) (and .certManager .spiffe) -}}
{{- fail "identity: secret, certManager and spiffe are different identities; choose one" -}}
{{- else if .certManager -}}
{{- include "swpd.fullname" $ }}-identity
{{- else -}}
{{- .secret -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the certificate of the metrics. */}}
{{- define "swpd.metricsSecret" -}}
{{- required "metrics.tls: missing; an identity of SPIFFE has no Secret that the metrics could use" (default (include "swpd.identitySecret" .) .Values.metrics.tls) -}}
{{- end -}}

{{- define "swpd.serviceAccount" -}}
{{- default (.Values.serviceAccount.create | ternary (include "swpd.fullname" .) "default") .Values.serviceAccount.name -}}
{{- end -}}

{{- define "swpd.metricsName" -}}
{{- default (printf "%s-metrics.%s.svc" (include "swpd.fullname" .) .Release.Namespace) .Values.metrics.serverName -}}
{{- end -}}

{{/* The directory of artifacts, which is that of the image. */}}
{{- define "swpd.artifacts" -}}/var/lib/swpd-artifacts{{- end -}}

{{/* Values of the cluster that do not fit. */}}
{{- define "swpd.cluster" -}}
{{- with .Values.cluster -}}
{{- if .store -}}
  {{- if not .artifacts -}}
    {{- fail "cluster.artifacts: missing; artifacts are not in PostgreSQL: name a bucket, or with cluster.claim the directory /var/lib/swpd-artifacts" -}}
  {{- else if hasPrefix "s3://" .artifacts -}}
    {{- if .claim -}}{{- fail "cluster.claim: has no effect, because cluster.artifacts is a bucket" -}}{{- end -}}
  {{- else if not .claim -}}
    {{- fail (printf "cluster.claim: missing; %s has to be one volume that all replicas mount" .artifacts) -}}
  {{- else if not (or (eq .artifacts (include "swpd.artifacts" $)) (hasPrefix (printf "%s/" (include "swpd.artifacts" $)) .artifacts)) -}}
    {{- fail (printf "cluster.artifacts: %s is not in %s, where cluster.claim is mounted" .artifacts (include "swpd.artifacts" $)) -}}
  {{- end -}}
{{- else -}}
  {{- if gt (int $.Values.replicas) 1 -}}
    {{- fail (printf "replicas: %d, want 1, or 0 to stop it: without cluster.store the store is a database in one volume, and one process at a time can use it; name a PostgreSQL database in cluster.store" (int $.Values.replicas)) -}}
  {{- end -}}
  {{- range $key := list "artifacts" "secret" "claim" -}}
    {{- if get $.Values.cluster $key -}}{{- fail (printf "cluster.%s: has no effect without cluster.store" $key) -}}{{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* swpd.yaml: what the chart sets, and config. */}}
{{- define "swpd.config" -}}
{{- include "swpd.cluster" . -}}
{{- range list "identity" "listeners" "admin" "health" "metrics" "data" "store" "cluster" -}}
  {{- if hasKey $.Values.config . -}}
    {{- fail (printf "config.%s: the chart sets it; see values.yaml" .) -}}
  {{- end -}}
{{- end -}}
{{- $listeners := list -}}
{{- range $kind := list "tls" "quic" -}}
  {{- with (index $.Values.listeners $kind).port -}}
    {{- $listeners = append $listeners (dict "address" (printf "swp+%s://0.0.0.0:%d" $kind (int .))) -}}
  {{- end -}}
{{- end -}}
{{- if not $listeners -}}{{- fail "listeners: a port of tls or quic has to be other than 0" -}}{{- end -}}
{{- $tcp := dict "7780" "admin" -}}
{{- $inner := ternary .Values.cluster.port 0 (ne .Values.cluster.store "") -}}
{{- if and $inner (eq (int $inner) (int .Values.listeners.quic.port)) -}}{{- fail (printf "cluster.port: %d is the port of listeners.quic.port" (int $inner)) -}}{{- end -}}
{{- range $key, $port := dict "cluster.port" $inner "health.port" .Values.health.port "listeners.tls.port" .Values.listeners.tls.port "metrics.port" (ternary .Values.metrics.port 0 .Values.metrics.enabled) -}}
  {{- $port = toString $port -}}
  {{- if hasKey $tcp $port -}}{{- fail (printf "%s: %s is the port of %s" $key $port (get $tcp $port)) -}}{{- end -}}
  {{- if ne $port "0" -}}{{- $_ := set $tcp $port $key -}}{{- end -}}
{{- end -}}
{{- $set := dict
  "listeners" $listeners
  "admin" "127.0.0.1:7780"
  "health" (printf "0.0.0.0:%d" (int .Values.health.port))
  "data" "/var/lib/swpd" -}}
{{- with .Values.cluster -}}
  {{- if .store -}}
    {{- $_ := set $set "store" .store -}}
    {{- $_ := set $set "cluster" (dict "artifacts" .artifacts) -}}
  {{- end -}}
{{- end -}}
{{- with .Values.identity.spiffe -}}
  {{- $socket := required "identity.spiffe.socket: missing; name the socket in the volume of the driver, such as spire-agent.sock" .socket -}}
  {{- $identity := dict "spiffe" (printf "unix:///spiffe-workload-api/%s" $socket) -}}
  {{- with .id -}}{{- $_ := set $identity "spiffe_id" . -}}{{- end -}}
  {{- $_ := set $set "identity" $identity -}}
{{- else -}}
  {{- $_ := set $set "identity" (dict "cert" "identity/tls.crt" "key" "identity/tls.key") -}}
  {{- $_ := set $set "trust" (dict "ca" (list "identity/ca.crt")) -}}
{{- end -}}
{{- with .Values.metrics -}}
  {{- if .enabled -}}
    {{- if not .tokenDigests -}}{{- fail "metrics.tokenDigests: missing; printf %s TOKEN | sha256sum" -}}{{- end -}}
    {{- $_ := include "swpd.metricsSecret" $ -}}
    {{- $dir := ternary "metrics" "identity" (ne .tls "") -}}
    {{- $_ := set $set "metrics" (dict "address" (printf "0.0.0.0:%d" (int .port)) "tokens" .tokenDigests
      "tls" (dict "cert" (printf "%s/tls.crt" $dir) "key" (printf "%s/tls.key" $dir))) -}}
  {{- end -}}
{{- end -}}
{{- mergeOverwrite $set (deepCopy .Values.config) | toYaml -}}
{{- end -}}

{{/* A Secret of type kubernetes.io/tls with an authority, as a directory. */}}
{{- define "swpd.keys" -}}
name: {{ .secret }}
items:
  {{- range list "tls.crt" "tls.key" "ca.crt" }}
  - {key: {{ . }}, path: {{ $.dir }}/{{ . }}}
  {{- end }}
{{- end -}}

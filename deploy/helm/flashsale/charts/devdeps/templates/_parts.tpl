{{/*
A part's name: the release's, cut so that what Kubernetes puts behind a StatefulSet's name fits into a label, and the part's.
dict "root" $ "name" PART
*/}}
{{- define "devdeps.name" -}}
{{ .root.Release.Name | trunc 36 | trimSuffix "-" }}-{{ .name }}
{{- end }}

{{/* dict "root" $ "name" PART */}}
{{- define "devdeps.selector" -}}
app.kubernetes.io/name: devdeps
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "devdeps.labels" -}}
{{ include "devdeps.selector" . }}
app.kubernetes.io/part-of: flashsale
{{- end }}

{{- define "devdeps.podSecurity" -}}
{runAsNonRoot: true, runAsUser: {{ . }}, runAsGroup: {{ . }}, fsGroup: {{ . }}, seccompProfile: {type: RuntimeDefault}}
{{- end }}

{{- define "devdeps.locked" -}}
{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}

{{/* The options that RocketMQ's scripts append last, so that these win. */}}
{{- define "devdeps.java" -}}
{{ . }} -XX:-AlwaysPreTouch -Dtls.server.mode=disabled
{{- end }}

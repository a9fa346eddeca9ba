{{/*
Name of a dependency, after that of the release, which is cut so that a StatefulSet's name with the suffix of
Kubernetes fits into a label.
dict "root" $ "name" DEPENDENCY
*/}}
{{- define "devdeps.name" -}}
{{ .root.Release.Name | trunc 36 | trimSuffix "-" }}-{{ .name }}
{{- end }}

{{/* dict "root" $ "name" DEPENDENCY */}}
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

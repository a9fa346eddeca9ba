{{/*
Prefix of all names: the release's name, with the chart's in it. At most 36 characters, so that names with a suffix
fit into 63.
*/}}
{{- define "flashsale.fullname" -}}
{{- $chart := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 36 | trimSuffix "-" -}}
{{- else if contains $chart .Release.Name -}}
{{- .Release.Name | trunc 36 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $chart | trunc 36 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* Selector of a component's pods. It may never change. dict "root" $ "name" COMPONENT */}}
{{- define "flashsale.selector" -}}
app.kubernetes.io/name: flashsale
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{/* Labels of every object. dict "root" $ "name" COMPONENT */}}
{{- define "flashsale.labels" -}}
{{ include "flashsale.selector" . }}
app.kubernetes.io/part-of: flashsale
app.kubernetes.io/version: {{ include "flashsale.tag" .root | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels of pods. They do not contain the chart's version, which would replace pods without need. */}}
{{- define "flashsale.podLabels" -}}
{{ include "flashsale.selector" . }}
app.kubernetes.io/part-of: flashsale
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "flashsale.tag" -}}
{{- default .Chart.AppVersion .Values.image.tag -}}
{{- end }}

{{/* A digest replaces the tag: not every runtime accepts both. dict "root" $ "name" IMAGE */}}
{{- define "flashsale.image" -}}
{{- $digest := dig "digests" .name "" .root.Values.image -}}
{{ printf "%s/%s%s" .root.Values.image.prefix .name (ternary (printf "@%s" $digest) (printf ":%s" (include "flashsale.tag" .root)) (ne $digest "")) }}
{{- end }}

{{- define "flashsale.secretName" -}}
{{- default (printf "%s-secrets" (include "flashsale.fullname" .)) .Values.secrets.existingSecret -}}
{{- end }}

{{/* Name of the Secret with CONTACT_KEYS. */}}
{{- define "flashsale.contactKeysName" -}}
{{- default (printf "%s-contact-keys" (include "flashsale.fullname" .)) .Values.secrets.existingSecret -}}
{{- end }}

{{/* Name of the Secret with WEBHOOK_KEYS. */}}
{{- define "flashsale.webhookKeysName" -}}
{{- default (printf "%s-webhook-keys" (include "flashsale.fullname" .)) .Values.secrets.existingSecret -}}
{{- end }}

{{/* Name of a bundled dependency, as in the sub-chart. dict "root" $ "name" DEPENDENCY */}}
{{- define "flashsale.devdep" -}}
{{ .root.Release.Name | trunc 36 | trimSuffix "-" }}-{{ .name }}
{{- end }}

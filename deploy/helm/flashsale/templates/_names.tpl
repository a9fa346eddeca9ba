{{/* Beginning of all names: the release's name, with the chart's in it. At most 36 characters, so that what is put behind fits into 63. */}}
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

{{/* By what a component's pods are found. It may never change. dict "root" $ "name" COMPONENT */}}
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

{{/* Labels of pods: what changes with the chart's version would replace pods for nothing. */}}
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

{{/* dict "root" $ "name" IMAGE */}}
{{- define "flashsale.image" -}}
{{ printf "%s/%s:%s" .root.Values.image.prefix .name (include "flashsale.tag" .root) }}
{{- end }}

{{- define "flashsale.secretName" -}}
{{- default (printf "%s-secrets" (include "flashsale.fullname" .)) .Values.secrets.existingSecret -}}
{{- end }}

{{/* The name of a bundled part, as the sub-chart calls it. dict "root" $ "name" PART */}}
{{- define "flashsale.devdep" -}}
{{ .root.Release.Name | trunc 36 | trimSuffix "-" }}-{{ .name }}
{{- end }}

{{/* The user of a pod, as a number: runAsNonRoot cannot check an image that names its user. */}}
{{- define "flashsale.podSecurity" -}}
{runAsNonRoot: true, runAsUser: {{ . }}, runAsGroup: {{ . }}, fsGroup: {{ . }}, seccompProfile: {type: RuntimeDefault}}
{{- end }}

{{/* Restrictions of every container. */}}
{{- define "flashsale.locked" -}}
{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}

{{/* Resources of containers that wait or run for a short time. */}}
{{- define "flashsale.smallResources" -}}
{requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 64Mi}}
{{- end }}

{{/* Spreads a component's pods over nodes and zones, if there are several. dict "root" $ "name" COMPONENT */}}
{{- define "flashsale.spread" -}}
{{- $root := .root }}{{ $name := .name -}}
{{- range $i, $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ $key }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "flashsale.selector" (dict "root" $root "name" $name) | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}

{{/* Placement of a pod. dict of a component's values */}}
{{- define "flashsale.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- define "flashsale.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Nine tenths of a memory limit in Mi or Gi, for the Go runtime; nothing without a limit. */}}
{{- define "flashsale.goMemLimit" -}}
{{- $limit := toString (dig "limits" "memory" "" .) -}}
{{- if regexMatch "^[0-9]+Mi$" $limit -}}
{{ div (mul (trimSuffix "Mi" $limit | int) 9) 10 }}MiB
{{- else if regexMatch "^[0-9]+Gi$" $limit -}}
{{ div (mul (trimSuffix "Gi" $limit | int) 1024 9) 10 }}MiB
{{- end -}}
{{- end }}

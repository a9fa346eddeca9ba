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

{{/* A memory limit of whole Mi or Gi, in Mi; nothing without one. RESOURCES */}}
{{- define "flashsale.memoryMi" -}}
{{- $limit := toString (dig "limits" "memory" "" .) -}}
{{- if regexMatch "^[0-9]+Mi$" $limit -}}
{{ trimSuffix "Mi" $limit }}
{{- else if regexMatch "^[0-9]+Gi$" $limit -}}
{{ mul (trimSuffix "Gi" $limit | int) 1024 }}
{{- end -}}
{{- end }}

{{/* Nine tenths of a memory limit, for the Go runtime; nothing without a limit. RESOURCES */}}
{{- define "flashsale.goMemLimit" -}}
{{- with include "flashsale.memoryMi" . -}}
{{ div (mul (int .) 9) 10 }}MiB
{{- end -}}
{{- end }}

{{/* Sidecars of a pod, as init containers that Kubernetes keeps running until the other containers have ended. VALUES */}}
{{- define "flashsale.sidecars" -}}
{{- range .sidecars -}}
{{- $locked := dict "securityContext" (include "flashsale.locked" $ | fromYaml) -}}
{{ list (mergeOverwrite $locked (deepCopy .) (dict "restartPolicy" "Always")) | toYaml }}
{{ end -}}
{{- end }}

{{/* Variables that an installation adds to a container of this project. dict "root" $ "own" VALUES */}}
{{- define "flashsale.extraEnv" -}}
{{- if include "flashsale.caConfigMap" .root -}}
{{- /* A directory replaces Go's own ones, so it names those too; the file of public authorities is read in any case. */ -}}
- {name: SSL_CERT_DIR, value: "/etc/ssl/certs:/etc/pki/tls/certs:/etc/flashsale/ca"}
{{ end -}}
{{- if include "flashsale.clientSecret" .root -}}
- {name: TLS_CERT_FILE, value: /etc/flashsale/client-certificate/tls.crt}
- {name: TLS_KEY_FILE, value: /etc/flashsale/client-certificate/tls.key}
{{ end -}}
{{- with .own.extraEnv }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* Mounts of a container of this project. dict "root" $ "own" VALUES "limits" RULES */}}
{{- define "flashsale.mounts" -}}
{{- if .limits -}}
- {name: limits, mountPath: /etc/flashsale/limits, readOnly: true}
{{ end -}}
{{- if include "flashsale.caConfigMap" .root -}}
- {name: ca, mountPath: /etc/flashsale/ca, readOnly: true}
{{ end -}}
{{- if include "flashsale.clientSecret" .root -}}
- {name: client-certificate, mountPath: /etc/flashsale/client-certificate, readOnly: true}
{{ end -}}
{{- with .own.volumeMounts }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* Volumes of a pod. Mounted as folders: changes do not reach a running pod if a single file is mounted. As mounts. */}}
{{- define "flashsale.volumes" -}}
{{- if .limits -}}
- name: limits
  configMap: {name: {{ include "flashsale.fullname" .root }}-limits}
{{ end -}}
{{- with include "flashsale.caConfigMap" .root -}}
- name: ca
  configMap: {name: {{ . }}}
{{ end -}}
{{- with include "flashsale.clientSecret" .root -}}
- name: client-certificate
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{ end -}}
{{- with .own.volumes }}{{ toYaml . }}{{ end -}}
{{- end }}

{{- define "flashsale.clientSecret" -}}
{{- dig "clientSecret" "" (.Values.tls | default dict) -}}
{{- end }}

{{- define "flashsale.caConfigMap" -}}
{{- dig "caConfigMap" "" (.Values.tls | default dict) -}}
{{- end }}

{{/* HorizontalPodAutoscaler and PodDisruptionBudget of a Deployment. dict "root" $ "name" COMPONENT "own" VALUES */}}
{{- define "flashsale.scaling" -}}
{{- $object := printf "%s-%s" (include "flashsale.fullname" .root) .name }}
{{- $scaled := .own.autoscaling | default (dict "enabled" false) }}
{{- if $scaled.enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ $object }}
  labels:
    {{- include "flashsale.labels" . | nindent 4 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ $object }}}
  minReplicas: {{ $scaled.min }}
  maxReplicas: {{ $scaled.max }}
  metrics:
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: {{ $scaled.cpu }}}}
  behavior:
    scaleUp:
      stabilizationWindowSeconds: 0
      policies: [{type: Percent, value: 100, periodSeconds: 15}, {type: Pods, value: 4, periodSeconds: 15}]
    # Slow, because the load of a sale comes in waves.
    scaleDown:
      stabilizationWindowSeconds: 600
      policies: [{type: Pods, value: 1, periodSeconds: 60}]
{{- end }}
{{- if and .own.disruptionBudget.enabled (gt (int (ternary $scaled.min .own.replicas $scaled.enabled)) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $object }}
  labels:
    {{- include "flashsale.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ .own.disruptionBudget.maxUnavailable }}
  # A pod that is not ready must not block the draining of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "flashsale.selector" . | nindent 6 }}
{{- end }}
{{- end }}

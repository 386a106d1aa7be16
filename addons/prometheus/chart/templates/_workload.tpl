{{- define "labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .release }}
{{- end }}

{{- /* A Deployment with its ConfigMap and Service: name, release, namespace, values, files, args, port, data, account. */ -}}
{{- define "workload" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels: {{- include "labels" . | nindent 4 }}
data:
  {{- range $file, $content := .files }}
  {{ $file }}: |
    {{- toYaml $content | nindent 4 }}
  {{- end }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels: {{- include "labels" . | nindent 4 }}
spec:
  replicas: 1
  strategy: {type: Recreate} # there is one volume, in the pod
  selector:
    matchLabels: {{- include "labels" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "labels" . | nindent 8 }}
      annotations:
        checksum/config: {{ toYaml .files | sha256sum }} # a change of it is a new pod
    spec:
      serviceAccountName: {{ .account }}
      securityContext: {runAsNonRoot: true, runAsUser: 65534, fsGroup: 65534, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: {{ .name }}
          image: {{ with .values.image }}{{ .registry }}/{{ .repository }}:{{ .tag }}{{ end }}
          args: {{- toYaml .args | nindent 12 }}
          ports: [{name: http, containerPort: {{ .port }}}]
          readinessProbe: {httpGet: {path: /-/ready, port: http}, periodSeconds: 2}
          livenessProbe: {httpGet: {path: /-/healthy, port: http}, periodSeconds: 10, failureThreshold: 6}
          resources: {{- toYaml .values.resources | nindent 12 }}
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          volumeMounts:
            - {name: config, mountPath: /etc/{{ .name }}}
            - {name: data, mountPath: {{ .data }}}
      volumes:
        - {name: config, configMap: {name: {{ .name }}}}
        - {name: data, emptyDir: {}}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels: {{- include "labels" . | nindent 4 }}
spec:
  selector: {{- include "labels" . | nindent 4 }}
  ports: [{name: http, port: {{ .port }}, targetPort: http}]
{{- end }}

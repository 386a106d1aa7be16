{{- /* A Deployment of containers: name, root, init, containers, each with name, command, env and mounts: folder -> read-only. */ -}}
{{- define "pod" -}}
{{- $v := .root.Values }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
spec:
  replicas: 1
  strategy: {type: Recreate} # there is one volume, and one state
  selector:
    matchLabels: {app.kubernetes.io/name: {{ .name }}}
  template:
    metadata:
      labels: {app.kubernetes.io/name: {{ .name }}}
      annotations:
        checksum/scripts: {{ (.root.Files.Glob "scripts/*").AsConfig | sha256sum }} # a change of them is a new pod
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: 2
      securityContext: {runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, seccompProfile: {type: RuntimeDefault}}
      {{- with .init }}
      initContainers: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        {{- range $c := .containers }}
        - name: {{ $c.name }}
          image: {{ with $v.image }}{{ .registry }}/{{ .repository }}:{{ .tag }}{{ end }}
          command: {{- toYaml $c.command | nindent 12 }}
          env: {{- toYaml $c.env | nindent 12 }}
          resources: {{- toYaml $v.resources | nindent 12 }}
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          volumeMounts:
            - {name: scripts, mountPath: /scripts}
            - {name: {{ $c.name }}, mountPath: /tmp}
            {{- range $folder, $readOnly := $c.mounts }}
            - {name: data, mountPath: {{ $folder }}, subPath: {{ base $folder }}, readOnly: {{ $readOnly }}}
            {{- end }}
        {{- end }}
      volumes:
        - {name: scripts, configMap: {name: tofu}}
        - {name: data, persistentVolumeClaim: {claimName: tofu}}
        {{- range .containers }}
        - {name: {{ .name }}, emptyDir: {sizeLimit: 64Mi}}
        {{- end }}
{{- end }}

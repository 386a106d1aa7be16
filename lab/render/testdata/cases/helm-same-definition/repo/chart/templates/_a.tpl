{{- define "name" }}a{{ end -}}

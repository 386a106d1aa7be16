function(project, ports=[], other='default') {
  apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: std.extVar('app')},
  data: {project: project, ports: std.manifestJsonMinified(ports), count: std.toString(std.extVar('count')), other: other},
}

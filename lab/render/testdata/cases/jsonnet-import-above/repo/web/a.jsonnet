(import '../shared/b.libsonnet') + {data: (import 'data.json')}

{x: 'from above'}

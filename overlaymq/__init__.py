"""overlaymq: publish and subscribe without a broker."""

"""Record batches as they lie on the wire: what they claim is checked before it is believed."""

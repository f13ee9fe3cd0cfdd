'use strict';
/** Unpacks the data of the page; the format is in payload.py. */
(() => {
  const TYPES = { u1: Uint8Array, i1: Int8Array, u2: Uint16Array, i2: Int16Array, u4: Uint32Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };

  /** @returns {Promise<object>} */
  girih.page.unpack = async (text) => {
    const binary = atob(text.trim());
    const compressed = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) compressed[i] = binary.charCodeAt(i);
    const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream('gzip'));
    const buffer = await new Response(stream).arrayBuffer();
    const length = new DataView(buffer).getUint32(0, true);
    const begin = Math.ceil((4 + length) / 8) * 8;
    const json = new TextDecoder().decode(new Uint8Array(buffer, 4, length));
    return JSON.parse(json, (key, value) => {
      if (value === null || typeof value !== 'object' || !value.$array) return value;
      const [type, offset, elements] = value.$array;
      return new TYPES[type](buffer, begin + offset, elements);
    });
  };
})();

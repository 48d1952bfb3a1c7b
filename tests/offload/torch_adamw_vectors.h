#pragma once

#include <array>
#include <cstdint>

#include "tests/offload/adam_reference.h"

namespace zero {

// Five steps of torch.optim.AdamW by torch 2.11.0 on a CPU, all floats as their bits:
//     p = torch.nn.Parameter(before)
//     o = torch.optim.AdamW([p], **hyper, fused=False, foreach=False)
//     for k in range(5): p.grad = grads[k].clone(); o.step()
// torch forms exp_avg by lerp where we use two products, so the last bits may differ.
struct TorchCase {
  AdamHyper hyper;
  std::array<uint32_t, 8> before;
  std::array<uint32_t, 40> grads;  // (5 steps, 8)
  std::array<uint32_t, 8> master, exp_avg, exp_avg_sq;
};

inline const TorchCase kDefaults{
    .hyper =
        {.lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-08, .weight_decay = 0.01},
    .before = {0xbbf08253, 0x3d210072, 0x3d41e8b9, 0xbd6437b8, 0x3dad230d, 0xbd3742c1,
               0xbc91a9fd, 0x3d7c6482},
    .grads = {0xbfca94c1, 0xbea62d99, 0x3ff6933b, 0xbea8f74c, 0x3e4b352e, 0x3f4835ea,
              0x3f85017b, 0x00000000, 0xbe565d56, 0xbe5c827d, 0xbfe869cc, 0xbeb0c38e,
              0xc003ef41, 0x3f2c91dd, 0xbfa96365, 0x00000000, 0xbdab10d9, 0xbcc054cb,
              0x3e328f74, 0x4013180c, 0x3f7504a6, 0xbf297027, 0xbf54156f, 0x00000000,
              0xbec3a4b3, 0xbf955cc9, 0x3eba269d, 0xbea19bb6, 0xbf083652, 0x3e99291f,
              0xbfb5d120, 0x00000000, 0x3f30abfe, 0xbe13b960, 0x3fce578c, 0x3fc89783,
              0xbf7057c3, 0xbf9e54fd, 0xbd802356, 0x00000000},
    .master = {0xbb8493c6, 0x3d323c56, 0x3d3bf2ba, 0xbd61465d, 0x3dae63d5, 0xbd4190e7,
               0xbc8bc4bd, 0x3d7c6144},
    .exp_avg = {0xbdbaddca, 0xbe22244b, 0x3e4eec4e, 0x3e890973, 0xbe4e57fb, 0xbd4c851f,
                0xbe6b015f, 0x00000000},
    .exp_avg_sq = {0x3b4f97c9, 0x3ac8e826, 0x3c1fa5f7, 0x3c03f72a, 0x3bd03a8d, 0x3b4c66e3,
                   0x3bb51305, 0x00000000},
};

inline const TorchCase kPretraining{
    .hyper =
        {.lr = 0.0003, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-08, .weight_decay = 0.1},
    .before = {0x3bd5de0a, 0x3c8745d3, 0xbb7d5d50, 0xbd3ce93c, 0xbdc1f51d, 0x3d4df478,
               0xbd0e4dff, 0x3d399875},
    .grads = {0x39d73907, 0x3ae7ab5f, 0xb8ae75f4, 0x3a055aab, 0x3a92838b, 0x3a93ec92,
              0x39147a10, 0x00000000, 0x3a9748d4, 0xbac966b1, 0xba12318c, 0xb9e5d04b,
              0x3a97acbf, 0x38ba86d9, 0x398b64f8, 0x00000000, 0xba428005, 0xba27213c,
              0xbacee97d, 0x3a295881, 0x389e9b16, 0xb91ff082, 0x394d57d2, 0x00000000,
              0x3a1521fe, 0x390bc7e8, 0x3a12cd91, 0xba40b688, 0xb96ade96, 0xba508708,
              0xbb0bd969, 0x00000000, 0x3abe848e, 0xbaca0989, 0xb9adc7be, 0x3a104cf8,
              0x3904eaf2, 0xbac69abd, 0xba6f41f1, 0x00000000},
    .master = {0x3bb5db83, 0x3c8645ca, 0xbb379477, 0xbd3ed45f, 0xbdc45989, 0x3d4bb6ff,
               0xbd10b591, 0x3d399154},
    .exp_avg = {0x3981c6ff, 0xb9470ede, 0xb92456d7, 0x3832cf15, 0x3923ef9d, 0xb922779d,
                0xb97a634e, 0x00000000},
    .exp_avg_sq = {0x34614c52, 0x34c4b978, 0x341d41b8, 0x33a86c65, 0x33eff367, 0x3454b8ce,
                   0x348d7ada, 0x00000000},
};

inline const TorchCase kNoDecay{
    .hyper = {.lr = 0.01, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-06, .weight_decay = 0.0},
    .before = {0xbc024247, 0x3d0b5a25, 0xbd31883d, 0x3e002a02, 0xbce72ba8, 0x3d6cbd95,
               0xbd0cd930, 0x3c8ffd8b},
    .grads = {0x41a3b6ec, 0xc1f670d4, 0xc017c4a5, 0x408a11d9, 0x42284dfd, 0xc14803b0,
              0x409ed5ec, 0x00000000, 0xc1a1a132, 0xc1aafdce, 0xc1a5d8e2, 0x40dde6a0,
              0xc1b556a3, 0xc065fcd3, 0x41e512e4, 0x00000000, 0xc161bbdf, 0xc1cb9271,
              0x41c470b6, 0x40c5d655, 0x41a843d1, 0xc1a5d45c, 0x410c3fe6, 0x00000000,
              0xc232ec70, 0x42704efc, 0xc1cf9920, 0xc10b36db, 0x3f9f1b6e, 0x41f3df79,
              0xc147a864, 0x00000000, 0xc194d863, 0xc26b7abe, 0x41850c81, 0xc12e306a,
              0x41488b22, 0xbfc9eca9, 0xc2028864, 0x00000000},
    .master = {0x3acb76e8, 0x3d873735, 0xbcbb5502, 0x3dc69bb8, 0xbd52aa8d, 0x3dabb31a,
               0xbd7c5121, 0x3c8ffd8b},
    .exp_avg = {0xc15138cf, 0xc12218b0, 0x394caa3b, 0xbfdb788f, 0x40d0c1da, 0x3f044194,
                0xc081ffa4, 0x00000000},
    .exp_avg_sq = {0x4204d16f, 0x42b490ee, 0x419c8758, 0x403d1a63, 0x41df5002, 0x41710001,
                   0x41a91703, 0x00000000},
};

}  // namespace zero
